// Uploads a model's files in chunks. A chunk that fails is sent again; an interrupted upload
// continues on the import's page.
import { csrfToken } from "./site.js";

const RETRIES = 6; // of one chunk, each after twice the delay
const MIN_DELAY_MS = 500;
const WEIGHTS = "upload";

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function send(method, address, body, type) {
  const headers = { "X-CSRFToken": csrfToken(), Accept: "application/json" };
  if (type) headers["Content-Type"] = type;
  return fetch(address, { method, headers, body, credentials: "same-origin" });
}

const post = (address, body) =>
  send("POST", address, body && JSON.stringify(body), "application/json");

// Show the errors of a response beside their fields. Errors of fields that the form lacks are shown
// at the files.
async function showErrors(form, response) {
  const problem = await response
    .json()
    .catch(() => ({ detail: `The server answered ${response.status}.` }));
  for (const element of form.querySelectorAll("[data-field-error]")) element.textContent = "";
  const errors = problem.errors || { files: [problem.detail] };
  for (const [field, messages] of Object.entries(errors)) {
    const element =
      form.querySelector(`[data-field-error="${CSS.escape(field)}"]`) ||
      form.querySelector('[data-field-error="files"]');
    element.setAttribute("role", "alert");
    element.textContent = messages.join(" ");
  }
}

function megabytes(bytes) {
  return `${(bytes / 1e6).toLocaleString("en", { maximumFractionDigits: bytes < 1e7 ? 1 : 0 })} MB`;
}

function showProgress(form, sent, total) {
  const box = form.querySelector("[data-upload-progress]");
  box.hidden = false;
  box.querySelector("progress").value = total ? sent / total : 0;
  box.querySelector("[role=status]").textContent =
    `${megabytes(sent)} of ${megabytes(total)} sent. Keep this page open.`;
}

// Send one chunk, and return how many bytes of the file the server has. Throws the response if the
// server refuses it.
async function sendChunk(address, file, offset, size) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const response = await send(
        "PUT",
        `${address}files/${encodeURIComponent(file.name)}/?offset=${offset}`,
        file.slice(offset, offset + size),
        "application/octet-stream",
      );
      if (response.ok) return (await response.json()).received;
      // The server expects another offset.
      if (response.status === 409) return (await fetchImport(address)).received[file.name];
      if (response.status < 500 && response.status !== 429) throw response;
    } catch (error) {
      if (error instanceof Response || attempt >= RETRIES) throw error;
    }
    if (attempt >= RETRIES) throw new TypeError("the server does not answer");
    await sleep(MIN_DELAY_MS * 2 ** attempt);
  }
}

async function fetchImport(address) {
  const response = await send("GET", address);
  if (!response.ok) throw response;
  const details = await response.json();
  if (details.state !== "uploading") throw new TypeError(`the import is already ${details.state}`);
  return details;
}

async function sendAll(form, address, files) {
  const received = (await fetchImport(address)).received;
  const total = files.reduce((sum, file) => sum + file.size, 0);
  for (const file of files) {
    let offset = received[file.name] || 0;
    while (offset < file.size) {
      showProgress(
        form,
        Object.values({ ...received, [file.name]: offset }).reduce((sum, bytes) => sum + bytes, 0),
        total,
      );
      offset = await sendChunk(address, file, offset, Number(form.dataset.chunkBytes));
    }
    received[file.name] = offset;
  }
  showProgress(form, total, total);
  const started = await post(`${address}start/`);
  if (!started.ok) throw started;
}

const importPage = (form, id) => form.dataset.follow.replace("/0/", `/${id}/`);

async function upload(form, files, create) {
  const button = form.querySelector(".first");
  button.disabled = true;
  let page = "";
  try {
    const created = await create();
    page = importPage(form, created.id);
    await sendAll(form, created.address, files);
    location.assign(page);
  } catch (error) {
    button.disabled = false;
    if (error instanceof Response) await showErrors(form, error);
    else
      form.querySelector('[data-field-error="files"]').textContent =
        `The upload broke off: ${error.message}.`;
    if (page && form.dataset.uploads) location.assign(page); // the upload can continue there
  }
}

async function createImport(form, files) {
  const data = new FormData(form);
  const fields = Object.fromEntries(
    ["project", "title", "slug", "template", "template_text"].map((name) => [
      name,
      data.get(name) || "",
    ]),
  );
  const sizes = Object.fromEntries(files.map((file) => [file.name, file.size]));
  const response = await post(form.dataset.uploads, { ...fields, kind: WEIGHTS, files: sizes });
  if (!response.ok) throw response;
  const { id } = await response.json();
  return { id, address: form.dataset.uploads.replace("/models/", `/model-imports/${id}/`) };
}

function resumeImport(form) {
  const address = form.dataset.resumeUrl;
  return { id: address.match(/(\d+)\/$/)[1], address };
}

for (const form of document.querySelectorAll("[data-uploads], [data-resume-url]")) {
  form.addEventListener("submit", (event) => {
    const isNew = "uploads" in form.dataset;
    if (isNew && new FormData(form).get("kind") !== WEIGHTS) return;
    event.preventDefault();
    const files = [...form.querySelector("[type=file]").files];
    upload(form, files, async () => (isNew ? createImport(form, files) : resumeImport(form)));
  });
}
