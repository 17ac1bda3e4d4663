import { readFileSync } from 'node:fs';
import { threadId } from 'node:worker_threads';
import type { Request } from 'autocannon';
import type { Load } from './generator.ts';

// Loaded by each of autocannon's workers: the same requests as those of wrk.lua.

export type RequestContext = Pick<Load, 'tokenFile' | 'users' | 'firstId'> & { workers: number };

let tokens: string[] | undefined;
let next = threadId; // workers take turns: their thread IDs are consecutive

function setupRequest(request: Request, { tokenFile, users, firstId, workers }: RequestContext): Request {
  tokens ??= readFileSync(tokenFile, 'utf8').split('\n').slice(0, users);
  next += workers;
  const authorization = `Bearer ${tokens[next % users]}`;
  if (request.method === 'GET') return { ...request, headers: { authorization } };
  const id = firstId + next;
  const body = `{"id":${id},"name":"Fern number ${id}","tag":"indoor"}`;
  return { ...request, headers: { authorization, 'content-type': 'application/json' }, body };
}

export { setupRequest as 'module.exports' };
