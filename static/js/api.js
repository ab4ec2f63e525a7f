// The API reference page: Swagger UI renders the OpenAPI document. Requests that write carry the
// CSRF token of the signed-in user.
import { csrfToken } from "./site.js";

const container = document.querySelector("#interface");
const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const applyTheme = () => document.documentElement.classList.toggle("dark-mode", isDark());

window.SwaggerUIBundle({
  url: container.dataset.schema,
  domNode: container,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: false,
  validatorUrl: null,
  requestInterceptor(request) {
    if (request.method && request.method !== "GET") request.headers["X-CSRFToken"] = csrfToken();
    return request;
  },
  onComplete() {
    container.removeAttribute("aria-busy");
  },
});
applyTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
new MutationObserver(applyTheme).observe(document.documentElement, {
  attributeFilter: ["data-theme"],
});
