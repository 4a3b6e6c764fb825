"use strict";
// Opens a live page and has its fleet move: node live.js ADDRESS. GET /move?to=TEXT moves the fleet. Prints what it found as JSON.
const {launch} = require(process.env.BROWSER_TOOLS);
const [address] = process.argv.slice(2);
const out = {errors: []};
const shows = (text) => document.querySelector("main").textContent.includes(text);

(async () => {
  const browser = await launch();
  try {
    const context = await browser.newContext();
    context.setDefaultTimeout(300000); // for a busy machine
    const page = await context.newPage();
    page.on("pageerror", (e) => out.errors.push(e.message));
    await page.goto(address + "/acme/fleet/-/promotions.html");
    await page.waitForFunction(() => document.getElementById("live").textContent === "Live · ");
    await page.evaluate(() => { document.querySelector("details.acts").open = true; window.kept = true; });
    const began = Date.now();
    await context.request.get(address + "/move?to=second");
    await page.waitForFunction(shows, "second");
    out.took = Date.now() - began;
    out.said = await page.evaluate(() => document.getElementById("live").textContent);
    out.open = await page.evaluate(() => document.querySelector("details.acts").open);
    out.kept = await page.evaluate(() => window.kept === true); // the page was not loaded again
    out.copyWorks = await page.evaluate(() => !document.querySelector(".copy").hidden);
    await page.keyboard.press("?"); // a sheet that is open is not pulled away
    await context.request.get(address + "/move?to=third");
    await page.waitForFunction(async () => (await (await fetch(location.href)).text()).includes("third"));
    out.sheet = await page.evaluate(() => document.getElementById("keys").open);
    await page.keyboard.press("Escape");
    await context.request.get(address + "/move?to=fourth");
    await page.waitForFunction(shows, "fourth");
    out.last = true;
  } catch (e) {
    out.errors.push(String(e.stack || e));
  }
  await browser.close();
  console.log(JSON.stringify(out));
})();
