// Steering of a live rollout: sends stop, edit, seat, hold and free requests, and waits until an
// explorer has confirmed them.
import { randomUuid } from "./outbox.js";
import { csrfToken } from "./site.js";

const FIRST_POLL_MS = 150;
const MAX_POLL_MS = 2000;
// The server itself refuses a request that no explorer has received within two minutes.
const POLL_TIMEOUT_MS = 150_000;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function fetchJson(address, options = {}) {
  try {
    const response = await fetch(address, { ...options, redirect: "error" });
    const body = await response.json().catch(() => ({}));
    return { status: response.status, ...body };
  } catch {
    return { status: 0, detail: "The server doesn’t respond. Your text is kept; send it again." };
  }
}

// Send one steering request. Returns {state: "done"}, {state: "refused", reason}, or
// {state: "unsent", reason} if it may be sent again with the same uuid.
export async function steer(base, kind, { text = "", turn = null, uuid = randomUuid() } = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": csrfToken() };
  const result = await fetchJson(`${base}${kind}/`, {
    method: "POST",
    headers,
    body: JSON.stringify({ text, turn, client_uuid: uuid }),
  });
  if (result.status === 404)
    return {
      state: "refused",
      reason: "The reply no longer exists, or you don’t have permission.",
    };
  if (result.status === 409 || result.status === 422)
    return { state: "refused", reason: result.detail };
  if (result.status !== 202)
    return {
      state: "unsent",
      reason: result.detail ?? `Server error ${result.status}. Send it again.`,
    };
  return result.state === "pending"
    ? pollUntilConfirmed(`${base}${kind}/?client_uuid=${uuid}`)
    : result;
}

async function pollUntilConfirmed(address) {
  const deadline = performance.now() + POLL_TIMEOUT_MS;
  for (
    let wait = FIRST_POLL_MS;
    performance.now() < deadline;
    wait = Math.min(MAX_POLL_MS, wait * 1.5)
  ) {
    await sleep(wait);
    const result = await fetchJson(address);
    if (result.state && result.state !== "pending") return result;
  }
  return {
    state: "unsent",
    reason: "No explorer has confirmed it yet. Send it again to see the result.",
  };
}
