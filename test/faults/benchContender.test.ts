import { expect, onTestFinished, test } from 'vitest';
import {
  cpuTime,
  residentMemory,
  startContender,
  startLoopDelay,
  stopContender,
  stopLoopDelay,
} from '../bench/contender.ts';

const STALL_MS = 200;
/** A server that computes for so long when it gets a POST. */
const SERVER = `
  const compute = () => { for (const start = process.cpuUsage(); process.cpuUsage(start).user < ${1_000 * STALL_MS}; ); };
  require('node:http').createServer(({ method }, response) => {
    if (method === 'POST') compute();
    response.end();
  }).listen(process.env.PORT, '127.0.0.1');`;

test("a contender's stall, CPU time and memory are measured", async () => {
  const contender = await startContender(['--eval', SERVER], {});
  onTestFinished(() => stopContender(contender));
  const before = cpuTime(contender);
  startLoopDelay(contender);
  await fetch(contender.url); // by then it has the message to start
  await fetch(contender.url, { method: 'POST' });
  const { max } = await stopLoopDelay(contender);
  expect(max).toBeGreaterThan(0.9 * STALL_MS);
  expect(cpuTime(contender) - before).toBeGreaterThan(0.9 * STALL_MS);
  expect(residentMemory(contender)).toBeGreaterThan(10);
});
