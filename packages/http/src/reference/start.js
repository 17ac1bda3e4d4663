// Runs in the browser, after Swagger UI's bundle.
globalThis.SwaggerUIBundle({
  dom_id: '#swagger-ui',
  url: 'openapi.json',
  layout: 'BaseLayout',
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
});
