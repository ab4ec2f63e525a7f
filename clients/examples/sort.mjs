// Sort digits: a whole environment with nothing but fetch.
// RFTWEB_ADDRESS=http://… RFTWEB_TOKEN=rft_usr_… node sort.mjs
const { RFTWEB_ADDRESS: address, RFTWEB_TOKEN: token } = process.env;
const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

async function ask(method, path, body) {
  // A request that was refused for now, or broke on its way, is sent again.
  const answer = await fetch(`${address}${path}`, {
    method,
    headers,
    body: body && JSON.stringify(body),
  }).catch(() => null);
  if (!answer || [429, 502, 503, 504].includes(answer.status)) {
    await sleep(Number(answer?.headers.get("retry-after") ?? 1));
    return ask(method, path, body);
  }
  const document = await answer.json();
  if (answer.status === 202)
    return sleep(1).then(() => ask("GET", answer.headers.get("location") ?? path));
  if (!answer.ok && answer.status !== 410) throw new Error(`${document.title}: ${document.detail}`);
  return document;
}

const turn = (episode, said) => ask("POST", `/api/v1/episodes/${episode.id}/turns/`, said);
// The same seed asks the same.
const digitsOf = (seed) => [...String((((seed + 1) * 7919) % 90000) + 10000)];

await ask("POST", "/api/v1/environments/", { name: "sort", version: "1", turn_limit: 2 });
for (;;) {
  const episode = await ask("POST", "/api/v1/environments/sort/episodes/", {
    key: crypto.randomUUID(),
  });
  const digits = digitsOf(episode.seed);
  const { action } = await turn(episode, {
    number: 0,
    observation: `Sort these digits: ${digits.join("")}`,
  });
  if (typeof action !== "string") continue; // it has ended
  const right = digits.sort();
  const reward =
    right.filter((digit, place) => action.trim()[place] === digit).length / right.length;
  await turn(episode, { number: 1, observation: "Thank you.", reward, done: true });
}
