// What runs inside the sandbox for functions of JavaScript: this file's text is given to a bare
// interpreter there. Reads JSON, `code` and `calls` ([function, arguments, {}]); writes a line with
// what each call gave.
"use strict";
const fs = require("fs");
const vm = require("vm");

const request = JSON.parse(fs.readFileSync(0, "utf8"));
process.stdout.write = () => true; // what the code prints is no answer
process.stderr.write = () => true;
Object.assign(globalThis, { require, module: { exports: {} }, exports: {} });

function describeError(error) {
  try {
    return `${(error && error.name) || "Error"}: ${(error && error.message) || error}`
      .slice(0, 200)
      .replace(/[^\x20-\x7e]/g, "?");
  } catch {
    return "an error";
  }
}

// What JSON has no form for becomes an object with the key "$", as values.py reads it.
function encode(value) {
  if (value === undefined || value === null) return null;
  if (typeof value === "bigint")
    return {
      $: "int",
      v: (value < 0n ? "-0x" : "0x") + (value < 0n ? -value : value).toString(16),
    };
  if (typeof value === "number" && !Number.isFinite(value))
    return { $: "float", v: Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf" };
  if (typeof value !== "object") return JSON.parse(JSON.stringify(value));
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value, encode);
  if (value instanceof Set) return { $: "set", v: Array.from(value, encode) };
  if (value instanceof Map)
    return { $: "dict", v: Array.from(value, ([key, part]) => [encode(key), encode(part)]) };
  if (typeof value.toJSON === "function") return encode(value.toJSON());
  const pairs = Object.entries(value).filter(
    ([, part]) => part !== undefined && typeof part !== "function",
  );
  return Object.fromEntries(pairs.map(([key, part]) => [key, encode(part)]));
}

function findFunction(name) {
  try {
    // Top-level const and let are no properties of the global object.
    return vm.runInThisContext(name);
  } catch {
    return globalThis.module.exports[name];
  }
}

function callOne([name, args]) {
  try {
    const target = findFunction(name);
    if (typeof target !== "function") return { error: `function ${name} not found` };
    const value = target(...args);
    return { value: encode(value) };
  } catch (error) {
    return { error: describeError(error) };
  }
}

function callAll() {
  try {
    vm.runInThisContext(request.code, { filename: "answer" });
  } catch (error) {
    return request.calls.map(() => ({ error: describeError(error) }));
  }
  return request.calls.map(callOne);
}

fs.writeSync(1, "\n" + JSON.stringify(callAll()) + "\n");
process.reallyExit(0); // whatever the code left to be done at the end is not done
