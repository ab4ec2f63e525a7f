// What runs inside the sandbox for functions of JavaScript: this file's text is given to a bare interpreter there.
// Reads JSON, `code` and `calls` ([function, arguments]); writes a line with what each call gave.
"use strict";
const fs = require("fs");
const vm = require("vm");

const asked = JSON.parse(fs.readFileSync(0, "utf8"));
process.stdout.write = () => true; // what the code prints is no answer
process.stderr.write = () => true;
Object.assign(globalThis, { require, module: { exports: {} }, exports: {} });

function told(error) {
  try {
    return `${(error && error.name) || "Error"}: ${(error && error.message) || error}`.slice(0, 200).replace(/[^\x20-\x7e]/g, "?");
  } catch {
    return "an error";
  }
}

function found(name) {
  try {
    return vm.runInThisContext(name); // top-level const and let are no properties of the global object
  } catch {
    return globalThis.module.exports[name];
  }
}

function answer([name, args]) {
  try {
    const called = found(name);
    if (typeof called !== "function") return { error: `there is no function ${name}` };
    const value = called(...args);
    return { value: value === undefined ? null : JSON.parse(JSON.stringify(value)) };
  } catch (error) {
    return { error: told(error) };
  }
}

function answers() {
  try {
    vm.runInThisContext(asked.code, { filename: "answer" });
  } catch (error) {
    return asked.calls.map(() => ({ error: told(error) }));
  }
  return asked.calls.map(answer);
}

fs.writeSync(1, "\n" + JSON.stringify(answers()) + "\n");
process.reallyExit(0); // whatever the code left to be done at the end is not done
