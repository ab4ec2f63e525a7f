// Runs inside the sandbox and calls functions of submitted JavaScript code. The text of this file
// is passed to a bare interpreter there. It reads JSON with `code` and `calls` ([function,
// arguments, {}]) and writes one line with the result of each call.
"use strict";
const fs = require("fs");
const vm = require("vm");

const request = JSON.parse(fs.readFileSync(0, "utf8"));
process.stdout.write = () => true; // ignore what the code prints
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

// Values that JSON can't represent become objects with the key "$", which values.py reads.
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
    return { $: "dict", v: Array.from(value, ([key, item]) => [encode(key), encode(item)]) };
  if (typeof value.toJSON === "function") return encode(value.toJSON());
  const pairs = Object.entries(value).filter(
    ([, item]) => item !== undefined && typeof item !== "function",
  );
  return Object.fromEntries(pairs.map(([key, item]) => [key, encode(item)]));
}

function findFunction(name) {
  try {
    // Top-level const and let are not properties of the global object.
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
process.reallyExit(0); // without running what the code has scheduled
