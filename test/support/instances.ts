import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, onTestFinished } from 'vitest';
import { startService } from './service.ts';

/** The delay before a request is repeated after a 503, in milliseconds. */
const RETRY_AFTER_MS = 100;

/** Two ready instances over one log, with separate data directories and one key. */
export async function twoInstances(url: string, urlOfSecond = url) {
  const KEY_FILE = join(tempDir(), 'key.json');
  const start = async (EVENTSTOREDB_URL: string) => {
    const service = await startService({ KEY_FILE, EVENTSTOREDB_URL });
    await ready(service);
    return service;
  };
  return [await start(url), await start(urlOfSecond)] as const;
}

/** Resolves when an instance has caught up with its log. */
export async function ready({ url }: { url: string }): Promise<void> {
  while ((await fetch(`${url}/health/ready`)).status !== 200) await pause(RETRY_AFTER_MS / 5);
}

/** Repeats a request while it returns 503, like a client. */
export async function untilAvailable(request: () => Promise<Response>): Promise<Response> {
  for (;;) {
    const response = await request();
    if (response.status !== 503) return response;
    await response.arrayBuffer();
    await pause(RETRY_AFTER_MS);
  }
}

/** The resources of this process that could leak, its listeners and threads, and its warnings. */
export function resourcesInUse() {
  const warnings: string[] = [];
  const warn = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);
  process.on('warning', warn);
  onTestFinished(() => void process.off('warning', warn));
  const threads = () => (existsSync('/proc/self/task') ? readdirSync('/proc/self/task').length : 0);
  const threadsBefore = threads();
  const listenersBefore = new Map(process.eventNames().map((name) => [name, process.listenerCount(name)]));
  const isNew = (name: string | symbol) => process.listenerCount(name) > (listenersBefore.get(name) ?? 0);
  const more = () => ({
    threads: Math.max(0, threads() - threadsBefore),
    listeners: process.eventNames().filter(isNew),
    warnings,
  });
  return { expectNoMore: () => expect.poll(more).toEqual({ threads: 0, listeners: [], warnings: [] }) };
}
