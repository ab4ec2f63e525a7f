// An environment in another language: it asks for sorted digits twice, and pays for each digit that
// stands right. node sorter.mjs ADDRESS TOKEN PLAYERS, until its standard input is closed. Prints
// what it has played as JSON.

const [address, token, players] = process.argv.slice(2);
const NAME = "sorter";
let going = true;
const played = { episodes: 0, answers: 0, whole: 0, busy: 0, again: 0, replays: 0, seconds: [] };
process.stdin
  .on("end", () => {
    going = false;
  })
  .resume();

const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

// A request that broke on its way is sent again: by its key it is done once.
async function sent(path, options, left = 5) {
  try {
    return await fetch(`${address}${path}`, options);
  } catch (broken) {
    if (!left) throw broken;
    played.again += 1;
    await sleep(0.2);
    return sent(path, options, left - 1);
  }
}

async function call(method, path, body, key) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  if (key) headers["idempotency-key"] = key;
  const answer = await sent(`/api/v1/${path}`, { method, headers, body: JSON.stringify(body) });
  const document = await answer.json();
  if (answer.status === 409 && key) {
    // the first of this key is still at work
    await sleep(0.5);
    return call(method, path, body, key);
  }
  if (answer.status >= 400 && answer.status !== 429 && answer.status !== 410) {
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(document)}`);
  }
  return { status: answer.status, document, retry: Number(answer.headers.get("retry-after") ?? 1) };
}

const get = async (path) =>
  (await sent(path, { headers: { authorization: `Bearer ${token}` } })).json();

function paid(action, right) {
  const digits = [...action].filter((one) => one >= "0" && one <= "9");
  return [...right].filter((digit, place) => digits[place] === digit).length / right.length;
}

async function turn(episode, number, said) {
  const path = `episodes/${episode.id}/turns/`;
  const began = performance.now();
  let { status, document } = await call(
    "POST",
    path,
    { number, ...said },
    `${episode.id}.${number}`,
  );
  while (status === 202) {
    document = await get(`/api/v1/${path}${number}/`);
    status = document.action === null ? 202 : 200;
  }
  played.seconds.push((performance.now() - began) / 1000);
  if (number === 0 && status === 200) {
    // as after a lost answer: the same again is the same
    const again = await call("POST", path, { number, ...said }, `${episode.id}.${number}`);
    if (again.document.action !== document.action) throw new Error("an action changed");
    played.replays += 1;
  }
  return status === 410 ? null : document;
}

async function play(episode) {
  const right = episode.task.answer.sorted;
  played.episodes += 1;
  let document = await turn(episode, 0, { observation: "" });
  if (!document || document.action === null) return; // it ended: `document.reason` says why
  played.answers += 1;
  document = await turn(episode, 1, {
    observation: "Once more.",
    reward: paid(document.action, right),
  });
  // As it does when the policy has used up its tokens.
  if (!document || document.action === null) return;
  played.answers += 1;
  const reward = paid(document.action, right);
  if (played.whole % 2) await turn(episode, 2, { observation: "Thank you.", reward, done: true });
  // Either way ends it.
  else await call("POST", `episodes/${episode.id}/result/`, { reward, reason: "enough" });
  played.whole += 1;
}

async function player(_, which) {
  let game = 1;
  while (going) {
    const key = `player ${which}, game ${game}`;
    const { status, document, retry } = await call("POST", `environments/${NAME}/episodes/`, {
      key,
    });
    if (status === 429) {
      played.busy += 1;
      await sleep(Math.min(retry, 1) / 4);
    } else {
      await play(document);
      game += 1;
    }
  }
}

await call("POST", "environments/", {
  project: "demo",
  name: NAME,
  version: "1",
  turn_limit: 4,
  turn_s: 20,
  parallel: 32,
});
console.log("registered");
await Promise.all(Array.from({ length: Number(players) }, player));
console.log(JSON.stringify(played));
