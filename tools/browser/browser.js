"use strict";
// Starts Chromium for the tests of web pages: the one that CHROMIUM names, else the pinned one of package.json (Linux on
// x64), else the system's. `node browser.js` prints the path and the version.
const fs = require("fs");
const path = require("path");
const {spawnSync} = require("child_process");
const {chromium} = require("playwright-core");

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// pinned unpacks the browser, its fonts and the libraries that a bare system lacks into node_modules, once.
const pinned = async () => {
  const folder = path.join(__dirname, "node_modules", ".chromium");
  fs.mkdirSync(folder, {recursive: true});
  // The package unpacks into the temporary folder, and its libraries only where it recognizes the execution environment.
  const env = {...process.env, TMPDIR: folder, AWS_EXECUTION_ENV: "AWS_Lambda_nodejs20.x"};
  const lock = path.join(folder, "complete");
  if (!fs.existsSync(lock)) {
    for (const entry of fs.readdirSync(folder)) fs.rmSync(path.join(folder, entry), {recursive: true});
    const unpack = spawnSync(process.execPath, ["-e", "require('@sparticuz/chromium').executablePath().catch((e) => { console.error(e); process.exit(1); })"], {cwd: __dirname, env, encoding: "utf8"});
    if (unpack.status !== 0) throw new Error("the pinned Chromium cannot be unpacked: " + unpack.stderr);
    // The package's own fonts.conf names a folder outside of this one.
    fs.writeFileSync(path.join(folder, "fonts.conf"), `<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig><dir>${folder}/fonts</dir><cachedir>${folder}/cache</cachedir></fontconfig>\n`);
    fs.writeFileSync(lock, "");
  }
  return {executablePath: path.join(folder, "chromium"), env: {...process.env, FONTCONFIG_FILE: path.join(folder, "fonts.conf"), LD_LIBRARY_PATH: path.join(folder, "al2023", "lib")}};
};

const installed = () => {
  for (const name of ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]) {
    for (const folder of (process.env.PATH || "").split(path.delimiter)) {
      if (fs.existsSync(path.join(folder, name))) return {executablePath: path.join(folder, name)};
    }
  }
  throw new Error("Chromium is not installed and there is no pinned one for " + process.platform + "/" + process.arch + ": install it, or set CHROMIUM");
};

const find = () => {
  if (process.env.CHROMIUM) return {executablePath: process.env.CHROMIUM};
  return process.platform === "linux" && process.arch === "x64" ? pinned() : installed();
};

exports.launch = async () => chromium.launch({...await find(), args: flags, timeout: 300000});
exports.axe = require("axe-core");

if (require.main === module) {
  (async () => {
    const {executablePath} = await find();
    const browser = await exports.launch();
    console.log(executablePath + ": Chromium " + browser.version());
    await browser.close();
  })().catch((e) => { console.error(e.message); process.exit(1); });
}
