import { readFileSync } from 'node:fs';
import { threadId } from 'node:worker_threads';
import type { Request } from 'autocannon';

// Loaded by each of autocannon's workers.

export type RequestContext = { tokenFile: string; workers: number; firstId: number };

let tokens: string[] | undefined;
let next = threadId; // workers take turns: their thread IDs are consecutive

function setupRequest(request: Request, { tokenFile, workers, firstId }: RequestContext): Request {
  tokens ??= readFileSync(tokenFile, 'utf8').split('\n');
  next += workers;
  const authorization = `Bearer ${tokens[next % tokens.length]}`;
  if (request.method === 'GET') return { ...request, headers: { authorization } };
  const id = firstId + next;
  const body = `{"id":${id},"name":"Fern number ${id}","tag":"indoor"}`;
  return { ...request, headers: { authorization, 'content-type': 'application/json' }, body };
}

export { setupRequest as 'module.exports' };
