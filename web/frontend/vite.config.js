import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  build: { outDir: "../static", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: false },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // `npx vite` beside a running appliance (MAGPIE_URL): REST and the live socket go there, the page comes from here.
  server: { proxy: { "^/(api|readyz|livez|metrics)": { target: process.env.MAGPIE_URL ?? "http://127.0.0.1:8080", ws: true } } },
});
