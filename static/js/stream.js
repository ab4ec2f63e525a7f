// One WebSocket that comes back: exponential wait with jitter, asks for what was missed, tells the
// page's dot.
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;
// Not signed in, not yours, malformed: trying again changes nothing.
const FINAL_CODES = new Set([4401, 4403, 4404]);
const PING_MS = 20000;
const WORDS = { live: "live", late: "catching up", offline: "offline" };

export function showConnection(state) {
  const dot = document.querySelector("[data-connection]");
  if (!dot) return;
  dot.dataset.socket = "yes";
  dot.hidden = false;
  dot.dataset.state = state;
  dot.textContent = WORDS[state];
}

// `address()` is asked at every connect, so it can carry the newest ids; `take(frame)` gets each
// decoded frame.
export function follow(address, take) {
  let failures = 0;
  let socket;
  let timer;

  function connect() {
    const url = new URL(address(), window.location.href);
    url.protocol = url.protocol.replace("http", "ws");
    socket = new WebSocket(url);
    const ping = setInterval(
      () => socket.readyState === WebSocket.OPEN && socket.send("ping"),
      PING_MS,
    );
    socket.addEventListener("open", () => {
      failures = 0;
      showConnection("live");
    });
    socket.addEventListener("message", (event) => {
      const frame = JSON.parse(event.data);
      if (frame.status) showConnection(frame.status === "live" ? "live" : "late");
      take(frame);
    });
    socket.addEventListener("close", (event) => {
      clearInterval(ping);
      showConnection("offline");
      if (!FINAL_CODES.has(event.code)) again();
    });
  }

  function again() {
    const wait =
      Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** failures) * (0.5 + Math.random() / 2);
    failures += 1;
    timer = setTimeout(connect, wait);
  }

  window.addEventListener("online", () => {
    if (socket.readyState === WebSocket.CLOSED) {
      clearTimeout(timer);
      connect();
    }
  });
  window.addEventListener("pagehide", () => socket.close());
  window.addEventListener("pageshow", (event) => event.persisted && connect());
  connect();
}

// Calls `act` at most once per `ms`, and once more when calls came meanwhile.
export function throttled(act, ms) {
  let timer = null;
  let wanted = false;
  return function ask() {
    if (timer) {
      wanted = true;
      return;
    }
    act();
    timer = setTimeout(() => {
      timer = null;
      if (wanted) {
        wanted = false;
        ask();
      }
    }, ms);
  };
}
