// A WebSocket that reconnects with exponential backoff and jitter, and shows its state in the
// page's connection indicator.
import { showConnection } from "./site.js";

const MIN_DELAY_MS = 500;
const MAX_DELAY_MS = 15000;
// Not signed in, not allowed, or malformed: reconnecting changes nothing.
const FATAL_CLOSE_CODES = new Set([4401, 4403, 4404]);
const PING_MS = 20000;
const LABELS = { live: "live", late: "catching up", offline: "offline" };

const showState = (state) => showConnection(state, LABELS[state]);

// Connect, and reconnect when the connection is lost. `buildUrl()` is called for each connection,
// so that it can contain the newest ids. `onFrame(frame)` receives each decoded frame.
export function subscribe(buildUrl, onFrame) {
  let failures = 0;
  let socket;
  let timer;

  function connect() {
    const url = new URL(buildUrl(), window.location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const opened = new WebSocket(url);
    socket?.close(); // a restored page may have connected already: two would show each word twice
    socket = opened;
    const ping = setInterval(
      () => opened.readyState === WebSocket.OPEN && opened.send("ping"),
      PING_MS,
    );
    opened.addEventListener("open", () => showState("live"));
    opened.addEventListener("message", (event) => {
      failures = 0; // not when it opens: the server also opens a connection that it then refuses
      const frame = JSON.parse(event.data);
      if (frame.status) showState(frame.status === "live" ? "live" : "late");
      onFrame(frame);
    });
    opened.addEventListener("close", (event) => {
      clearInterval(ping);
      if (socket !== opened) return; // replaced when the page was restored
      showState("offline");
      if (!FATAL_CLOSE_CODES.has(event.code)) scheduleReconnect();
    });
  }

  function scheduleReconnect() {
    const delay = Math.min(MAX_DELAY_MS, MIN_DELAY_MS * 2 ** failures) * (0.5 + Math.random() / 2);
    failures += 1;
    timer = setTimeout(connect, delay);
  }

  window.addEventListener("online", () => {
    if (socket.readyState === WebSocket.CLOSED) {
      clearTimeout(timer);
      connect();
    }
  });
  window.addEventListener("pagehide", () => socket.close());
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    clearTimeout(timer);
    connect();
  });
  connect();
}

// Return a function that calls `action` at most once per `ms`, and once more afterwards if it was
// called in the meantime.
export function throttle(action, ms) {
  let timer = null;
  let isPending = false;
  return function call() {
    if (timer) {
      isPending = true;
      return;
    }
    action();
    timer = setTimeout(() => {
      timer = null;
      if (isPending) {
        isPending = false;
        call();
      }
    }, ms);
  };
}
