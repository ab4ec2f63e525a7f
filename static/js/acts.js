// Stop, edit, take the seat, hold, free: asked of the server, and what became of it.
const FIRST_LOOK_MS = 150;
const LONGEST_LOOK_MS = 2000;
const GIVE_UP_MS = 150_000; // the server itself refuses what nobody heard for two minutes

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function fetched(address, options = {}) {
  try {
    const answer = await fetch(address, { ...options, redirect: "error" });
    const body = await answer.json().catch(() => ({}));
    return { status: answer.status, ...body };
  } catch {
    return { status: 0, detail: "The server doesn’t respond. Your text is kept; send it again." };
  }
}

// {state: "done"}, {state: "refused", reason}, or {state: "unsent", reason} when it may be sent
// again with the same uuid.
export async function act(base, kind, { text = "", turn = null, uuid = crypto.randomUUID() } = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": document.body.dataset.csrf };
  const response = await fetched(`${base}${kind}/`, {
    method: "POST",
    headers,
    body: JSON.stringify({ text, turn, client_uuid: uuid }),
  });
  if (response.status === 404)
    return {
      state: "refused",
      reason: "The reply no longer exists, or you don’t have permission.",
    };
  if (response.status === 409 || response.status === 422)
    return { state: "refused", reason: response.detail };
  if (response.status !== 202)
    return {
      state: "unsent",
      reason: response.detail ?? `Server error ${response.status}. Send it again.`,
    };
  return response.state === "asked" ? settled(`${base}${kind}/?client_uuid=${uuid}`) : response;
}

async function settled(address) {
  const until = performance.now() + GIVE_UP_MS;
  for (
    let wait = FIRST_LOOK_MS;
    performance.now() < until;
    wait = Math.min(LONGEST_LOOK_MS, wait * 1.5)
  ) {
    await pause(wait);
    const now = await fetched(address);
    if (now.state && now.state !== "asked") return now;
  }
  return {
    state: "unsent",
    reason: "No explorer has confirmed it yet. Send it again to see the result.",
  };
}
