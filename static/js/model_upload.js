// Files of a model, sent in pieces. A piece that is lost is sent again; an upload that broke off
// continues on the import's page.
const RETRIES = 6; // of one piece, each after twice the time
const FIRST_PAUSE_MS = 500;
const WEIGHTS = "upload";

const csrf = () => document.body.dataset.csrf;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function ask(method, address, body, type) {
  const headers = { "X-CSRFToken": csrf(), Accept: "application/json" };
  if (type) headers["Content-Type"] = type;
  return fetch(address, { method, headers, body, credentials: "same-origin" });
}

const post = (address, body) =>
  ask("POST", address, body && JSON.stringify(body), "application/json");

// What a problem says, by field; of a field that the form lacks, at the files.
async function show(form, answer) {
  const problem = await answer
    .json()
    .catch(() => ({ detail: `The server answered ${answer.status}.` }));
  for (const place of form.querySelectorAll("[data-wrong]")) place.textContent = "";
  const errors = problem.errors || { files: [problem.detail] };
  for (const [field, words] of Object.entries(errors)) {
    const place =
      form.querySelector(`[data-wrong="${CSS.escape(field)}"]`) ||
      form.querySelector('[data-wrong="files"]');
    place.setAttribute("role", "alert");
    place.textContent = words.join(" ");
  }
}

function megabytes(bytes) {
  return `${(bytes / 1e6).toLocaleString("en", { maximumFractionDigits: bytes < 1e7 ? 1 : 0 })} MB`;
}

function told(form, done, total) {
  const box = form.querySelector("[data-upload-progress]");
  box.hidden = false;
  box.querySelector("progress").value = total ? done / total : 0;
  box.querySelector("[role=status]").textContent =
    `${megabytes(done)} of ${megabytes(total)} sent. Keep this page open.`;
}

// Sends one piece; returns how many bytes of the file are there then. Throws the answer that
// refuses it.
async function sendPiece(address, file, offset, size) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const answer = await ask(
        "PUT",
        `${address}files/${encodeURIComponent(file.name)}/?offset=${offset}`,
        file.slice(offset, offset + size),
        "application/octet-stream",
      );
      if (answer.ok) return (await answer.json()).received;
      // Another place is the right one.
      if (answer.status === 409) return (await state(address)).received[file.name];
      if (answer.status < 500 && answer.status !== 429) throw answer;
    } catch (error) {
      if (error instanceof Response || attempt >= RETRIES) throw error;
    }
    if (attempt >= RETRIES) throw new TypeError("the server does not answer");
    await pause(FIRST_PAUSE_MS * 2 ** attempt);
  }
}

async function state(address) {
  const answer = await ask("GET", address);
  if (!answer.ok) throw answer;
  const modelImport = await answer.json();
  if (modelImport.state !== "uploading")
    throw new TypeError(`the import is already ${modelImport.state}`);
  return modelImport;
}

async function sendAll(form, address, files) {
  const there = (await state(address)).received;
  const total = files.reduce((sum, file) => sum + file.size, 0);
  for (const file of files) {
    let at = there[file.name] || 0;
    while (at < file.size) {
      told(
        form,
        Object.values({ ...there, [file.name]: at }).reduce((sum, bytes) => sum + bytes, 0),
        total,
      );
      at = await sendPiece(address, file, at, Number(form.dataset.piece));
    }
    there[file.name] = at;
  }
  told(form, total, total);
  const started = await post(`${address}start/`);
  if (!started.ok) throw started;
}

const follow = (form, id) => form.dataset.follow.replace("/0/", `/${id}/`);

async function upload(form, files, begin) {
  const button = form.querySelector(".first");
  button.disabled = true;
  let page = "";
  try {
    const made = await begin();
    page = follow(form, made.id);
    await sendAll(form, made.address, files);
    location.assign(page);
  } catch (error) {
    button.disabled = false;
    if (error instanceof Response) await show(form, error);
    else
      form.querySelector('[data-wrong="files"]').textContent =
        `The upload broke off: ${error.message}.`;
    if (page && form.dataset.uploads) location.assign(page); // there it can go on
  }
}

async function beginNew(form, files) {
  const data = new FormData(form);
  const named = Object.fromEntries(
    ["project", "title", "slug", "template", "template_text"].map((name) => [
      name,
      data.get(name) || "",
    ]),
  );
  const sizes = Object.fromEntries(files.map((file) => [file.name, file.size]));
  const answer = await post(form.dataset.uploads, { ...named, kind: WEIGHTS, files: sizes });
  if (!answer.ok) throw answer;
  const { id } = await answer.json();
  return { id, address: form.dataset.uploads.replace("/models/", `/model-imports/${id}/`) };
}

function beginAgain(form) {
  const address = form.dataset.resumes;
  return { id: address.match(/(\d+)\/$/)[1], address };
}

for (const form of document.querySelectorAll("[data-uploads], [data-resumes]")) {
  form.addEventListener("submit", (event) => {
    const isNew = "uploads" in form.dataset;
    if (isNew && new FormData(form).get("kind") !== WEIGHTS) return;
    event.preventDefault();
    const files = [...form.querySelector("[type=file]").files];
    upload(form, files, async () => (isNew ? beginNew(form, files) : beginAgain(form)));
  });
}
