// The OpenAPI document as a page. Swagger UI draws it; a signed-in browser's writes carry our CSRF
// token.
const place = document.querySelector("#interface");
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const paint = () => document.documentElement.classList.toggle("dark-mode", dark());

window.SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: false,
  validatorUrl: null,
  requestInterceptor(request) {
    if (request.method && request.method !== "GET")
      request.headers["X-CSRFToken"] = document.body.dataset.csrf;
    return request;
  },
  onComplete() {
    place.removeAttribute("aria-busy");
  },
});
paint();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
new MutationObserver(paint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
