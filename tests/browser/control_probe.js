// Runs in every page before its own scripts: lists the controls, and counts what follows a click.
(() => {
  const CONTROLS =
    "button, input[type=submit], input[type=button], input[type=reset], [role=button]";
  const AGES = "time[data-age], [data-connection]"; // these change by themselves
  const walked = { seen: 0, clicks: 0 };
  const note = () => {
    walked.seen += 1;
  };

  const frames = (count) =>
    new Promise((done) =>
      requestAnimationFrame(() => (count > 1 ? frames(count - 1).then(done) : done())),
    );
  // Two frames: what scrolling to the control fires is over then.
  walked.reset = async () => {
    await frames(2);
    walked.seen = 0;
    walked.clicks = 0;
  };
  const isVisible = (node) =>
    node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) &&
    node.getClientRects().length > 0;
  // Hidden from everybody: the button that Enter in a field presses.
  const isOffered = (node) =>
    !node.disabled &&
    node.getAttribute("aria-disabled") !== "true" &&
    !node.closest("[aria-hidden=true]");
  const all = (within) =>
    [...within.querySelectorAll(CONTROLS)].filter((node) => isOffered(node) && isVisible(node));
  const label = (node) =>
    (node.getAttribute("aria-label") || node.innerText || node.value || node.title || "")
      .trim()
      .replace(/\s+/g, " ")
      .slice(0, 60);
  const marks = (node) =>
    [...node.attributes]
      .filter((one) => one.name.startsWith("data-"))
      .map((one) => one.name)
      .sort()
      .join(",");

  function told(node, key) {
    const form = node.form;
    const sends =
      !!form && form.method !== "dialog" && (node.type === "submit" || node.type === "image");
    const action = sends
      ? new URL(
          node.getAttribute("formaction") || form.getAttribute("action") || location.pathname,
          location.href,
        ).pathname
      : "";
    const frame = !!node.closest(".rail, .top, dialog[data-keys-sheet], .tour");
    return {
      key,
      label: label(node),
      sends,
      action,
      name: node.name ? `${node.name}=${node.value}`.slice(0, 60) : "",
      marks: marks(node),
      frame,
    };
  }

  function keyed(within) {
    const counts = new Map();
    return all(within).map((node) => {
      const own = `${label(node)}|${marks(node)}|${node.name}|${node.value}`;
      const number = counts.get(own) ?? 0;
      counts.set(own, number + 1);
      return [node, `${own}|${number}`];
    });
  }

  const unfold = () =>
    document.querySelectorAll("main details").forEach((one) => {
      one.open = true;
    });
  walked.controls = (within = document) => {
    if (!within) return [];
    unfold();
    return keyed(within).map(([node, key]) => told(node, key));
  };
  walked.find = (key) => {
    unfold();
    const open = document.querySelector("dialog[open]");
    const found = keyed(open ?? document).find(([, own]) => own === key)?.[0];
    // Open menus lie over each other: only the one that the control is in stays open.
    document.querySelectorAll("details.menu").forEach((one) => {
      if (!one.contains(found)) one.open = false;
    });
    return found;
  };
  walked.links = () => {
    unfold();
    return [...document.querySelectorAll("a[href]")]
      .filter(isVisible)
      .map((node) => new URL(node.getAttribute("href"), location.href).href);
  };

  const goesAlone = (record) => {
    const node = record.target.nodeType === 1 ? record.target : record.target.parentElement;
    return !node || !!node.closest(AGES);
  };
  new MutationObserver((records) => {
    if (records.some((record) => !goesAlone(record))) note();
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  for (const kind of [
    "invalid",
    "submit",
    "reset",
    "toggle",
    "close",
    "input",
    "change",
    "scroll",
    "fullscreenchange",
  ]) {
    document.addEventListener(kind, note, true);
  }
  document.addEventListener(
    "click",
    () => {
      walked.clicks += 1;
    },
    true,
  );
  document.addEventListener(
    "focusin",
    (event) => {
      if (!event.target.closest(CONTROLS)) note();
    },
    true,
  );
  addEventListener("pagehide", note);
  const wrap = (owner, name) => {
    const plain = owner?.[name];
    if (plain)
      owner[name] = function (...given) {
        note();
        return plain.apply(this, given);
      };
  };
  wrap(window, "fetch");
  wrap(XMLHttpRequest.prototype, "send");
  wrap(navigator.clipboard && Object.getPrototypeOf(navigator.clipboard), "writeText");
  window.walked = walked;
})();
