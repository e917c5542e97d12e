// Runs jobs, one JSON object a line, with the local-disk memory tool of the TypeScript SDK, and answers each with a
// line of what it measured, in milliseconds. Its argument is the directory for the files.
import { createInterface } from "node:readline";
import { BetaLocalFilesystemMemoryTool, betaMemoryTool } from "@anthropic-ai/sdk/tools/memory/node";

const memory = betaMemoryTool(await BetaLocalFilesystemMemoryTool.init(process.argv[2]));
const directoryFiles = 100;
let texts = [];
let filled = 0;
let created = 0;

// The paths and texts are those that memoryd gets.
const pathOf = (n) => `/memories/notes-${Math.floor(n / directoryFiles)}/note-${n}.md`;
const create = (n) =>
  memory.run({ command: "create", path: pathOf(n), file_text: texts[n % texts.length] });

const calls = {
  view: () => memory.run({ command: "view", path: pathOf(Math.floor(Math.random() * filled)) }),
  list: () => memory.run({ command: "view", path: "/memories/notes-0" }),
  create: () => create(filled + created++),
};

async function fill(job) {
  texts = job.texts;
  for (; filled < job.count; filled++) await create(filled);
  return {};
}

async function measure(job) {
  const took = [];
  const start = performance.now();
  const caller = async () => {
    for (let begin = start; begin - start < job.millis; ) {
      await calls[job.do]();
      const end = performance.now();
      took.push(end - begin);
      begin = end;
    }
  };
  await Promise.all(Array.from({ length: job.callers }, caller));
  const elapsed = performance.now() - start;
  took.sort((a, b) => a - b);
  const quantile = (q) => took[Math.max(0, Math.ceil(q * took.length) - 1)];
  return { calls: took.length, elapsed, p50: quantile(0.5), p99: quantile(0.99) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  let answer;
  try {
    answer = await (job.do === "fill" ? fill(job) : measure(job));
  } catch (err) {
    answer = { error: String(err) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
