// Runs in each page before its own scripts: lists the controls, and counts the effects of a click.
(() => {
  const CONTROLS =
    "button, input[type=submit], input[type=button], input[type=reset], [role=button]";
  const AGES = "time[data-age], [data-connection]"; // these change without a click
  const walked = { seen: 0, clicks: 0 };
  const countEffect = () => {
    walked.seen += 1;
  };

  const waitFrames = (count) =>
    new Promise((resolve) =>
      requestAnimationFrame(() => (count > 1 ? waitFrames(count - 1).then(resolve) : resolve())),
    );
  // After two frames, the events of scrolling to the control are over.
  walked.reset = async () => {
    await waitFrames(2);
    walked.seen = 0;
    walked.clicks = 0;
  };
  const isVisible = (node) =>
    node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) &&
    node.getClientRects().length > 0;
  // Excludes the hidden button that Enter in a field presses.
  const isOffered = (node) =>
    !node.disabled &&
    node.getAttribute("aria-disabled") !== "true" &&
    !node.closest("[aria-hidden=true]");
  const visibleControls = (within) =>
    [...within.querySelectorAll(CONTROLS)].filter((node) => isOffered(node) && isVisible(node));
  const label = (node) =>
    (node.getAttribute("aria-label") || node.innerText || node.value || node.title || "")
      .trim()
      .replace(/\s+/g, " ")
      .slice(0, 60);
  const dataAttributes = (node) =>
    [...node.attributes]
      .filter((attribute) => attribute.name.startsWith("data-"))
      .map((attribute) => attribute.name)
      .sort()
      .join(",");

  function describe(node, key) {
    const form = node.form;
    const isSubmit =
      !!form && form.method !== "dialog" && (node.type === "submit" || node.type === "image");
    const action = isSubmit
      ? new URL(
          node.getAttribute("formaction") || form.getAttribute("action") || location.pathname,
          location.href,
        ).pathname
      : "";
    const isSiteFrame = !!node.closest(".rail, .top, dialog[data-keys-sheet], .tour");
    return {
      key,
      label: label(node),
      sends: isSubmit,
      action,
      name: node.name ? `${node.name}=${node.value}`.slice(0, 60) : "",
      marks: dataAttributes(node),
      frame: isSiteFrame,
    };
  }

  function withKeys(within) {
    const counts = new Map();
    return visibleControls(within).map((node) => {
      const identity = `${label(node)}|${dataAttributes(node)}|${node.name}|${node.value}`;
      const number = counts.get(identity) ?? 0;
      counts.set(identity, number + 1);
      return [node, `${identity}|${number}`];
    });
  }

  const openDetails = () =>
    document.querySelectorAll("main details").forEach((element) => {
      element.open = true;
    });
  walked.controls = (within = document) => {
    if (!within) return [];
    openDetails();
    return withKeys(within).map(([node, key]) => describe(node, key));
  };
  walked.find = (key) => {
    openDetails();
    const open = document.querySelector("dialog[open]");
    const control = withKeys(open ?? document).find(([, identity]) => identity === key)?.[0];
    // Open menus overlap: keep only the one with the control open.
    document.querySelectorAll("details.menu").forEach((element) => {
      if (!element.contains(control)) element.open = false;
    });
    return control;
  };
  walked.links = () => {
    openDetails();
    return [...document.querySelectorAll("a[href]")]
      .filter(isVisible)
      .map((node) => new URL(node.getAttribute("href"), location.href).href);
  };

  const isAutomatic = (record) => {
    const node = record.target.nodeType === 1 ? record.target : record.target.parentElement;
    return !node || !!node.closest(AGES);
  };
  new MutationObserver((records) => {
    if (records.some((record) => !isAutomatic(record))) countEffect();
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
    document.addEventListener(kind, countEffect, true);
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
      if (!event.target.closest(CONTROLS)) countEffect();
    },
    true,
  );
  addEventListener("pagehide", countEffect);
  const wrap = (owner, name) => {
    const original = owner?.[name];
    if (original)
      owner[name] = function (...args) {
        countEffect();
        return original.apply(this, args);
      };
  };
  wrap(window, "fetch");
  wrap(XMLHttpRequest.prototype, "send");
  wrap(navigator.clipboard && Object.getPrototypeOf(navigator.clipboard), "writeText");
  window.walked = walked;
})();
