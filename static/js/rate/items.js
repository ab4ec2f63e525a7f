// Items as the server sends them: the article of each, and the module of its rating form.

// Parse the items of a response. The fragments come from our own server; model output in them is
// escaped, and no scripts in them run.
export async function parseItems(response) {
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const articles = [...parsed.querySelectorAll("[data-item]")].map((article) =>
    document.importNode(article, true),
  );
  return Promise.all(
    articles.map(async (article) => ({ article, module: await import(article.dataset.script) })),
  );
}

// Make an item ready to be rated: its form, and what is recorded about the rating.
export function createState({ article, module }, pageApi) {
  return {
    article,
    module,
    form: module.createForm(article, pageApi),
    firstKey: null, // ms until the first input
    changes: 0,
  };
}

export function isNorming(article) {
  return "norming" in article.dataset;
}

// The fence and the version prove to the server which lease and which texts a rating is about.
export function leaseFields(article) {
  return { fence: Number(article.dataset.fence), version: Number(article.dataset.version) };
}
