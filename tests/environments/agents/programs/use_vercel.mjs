// Use the Vercel AI SDK as its quick start does, with OPENAI_BASE_URL and OPENAI_API_KEY.
// Run beside a node_modules folder that has `ai`, `@ai-sdk/openai-compatible` and `zod`.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: key, OPENAI_MODEL: name } = process.env;
const prompt = { system: "You add.", prompt: "12+3=" };

function model(episode = "") {
  const apiKey = episode ? `${key}.${episode}` : key;
  return createOpenAICompatible({ name: "rftweb", baseURL, apiKey, includeUsage: true })(name);
}

async function chat() {
  const settings = { temperature: 0, maxOutputTokens: 8, stopSequences: ["\n\n\n"], seed: 7 };
  const { text, usage } = await generateText({ model: model(), ...prompt, ...settings });
  return { text, tokens: usage.outputTokens };
}

async function stream() {
  const result = streamText({ model: model(), ...prompt, maxOutputTokens: 8 });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  return { text, tokens: (await result.usage).outputTokens };
}

async function options() {
  const providerOptions = { rftweb: { user: "ann" } };
  const { text } = await generateText({ model: model(), ...prompt, topP: 0.9, providerOptions });
  return { text };
}

const calls = [];
const add = tool({
  description: "Add two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => {
    calls.push({ a, b });
    return a + b;
  },
});

async function tools() {
  const settings = { tools: { add }, stopWhen: stepCountIs(3) };
  const { text } = await generateText({ model: model("vercel"), ...prompt, ...settings });
  return { calls, text };
}

async function structured() {
  const record = tool({ inputSchema: z.object({ a: z.number(), b: z.number() }) });
  const settings = { tools: { add: record }, toolChoice: { type: "tool", toolName: "add" } };
  const { toolCalls } = await generateText({ model: model(), ...prompt, ...settings });
  return { sum: toolCalls[0].input };
}

async function refused() {
  const schema = z.object({ a: z.number(), b: z.number() });
  try {
    await generateObject({ model: model(), ...prompt, schema, maxRetries: 0 });
  } catch (error) {
    const { message, param } = error.data.error;
    return { status: error.statusCode, param, error: message };
  }
}

const ways = { chat, stream, options, tools, structured, refused };
const found = {};
for (const way of process.env.WAYS.split(" ")) found[way] = await ways[way]();
console.log(JSON.stringify(found));
