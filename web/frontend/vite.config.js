import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  build: { outDir: "../static", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: false },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // `npm run dev` beside a running appliance.
  server: { proxy: { "/api": { target: "http://127.0.0.1:8080", ws: true, changeOrigin: true } } },
});
