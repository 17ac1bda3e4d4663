import { pathToFileURL } from 'node:url';
import { expect, test, vi } from 'vitest';
import { moduleBeside, Thread } from '../../src/threads/thread.ts';

type Operations = Record<'echo' | 'later' | 'announce', (value: unknown) => unknown> & {
  fail: (message: string) => void;
  exit: (code: number) => void;
};

const ECHO = moduleBeside(import.meta.url, 'echoThread');

function start() {
  const [onEvent, onEnd] = [vi.fn(), vi.fn()];
  const thread = new Thread<Operations, string, string>(ECHO, { data: 'data', onEvent, onEnd });
  return { thread, onEvent, onEnd };
}

test('a thread starts with data, replies to each call, and sends events before the replies that follow', async () => {
  const { thread, onEvent, onEnd } = start();
  expect(await thread.started).toBe('data');
  const later = thread.call('later', 'first');
  expect(await thread.call('echo', 2n)).toBe(2n);
  expect(await later).toBe('first');
  thread.post('announce', 'event');
  await thread.call('echo', 'after');
  expect(onEvent.mock.calls).toEqual([['event']]);
  await thread.close();
  expect(onEvent.mock.lastCall).toEqual(['closed']);
  expect(onEnd).not.toHaveBeenCalled();
});

test('a call rejects with the error of its operation, and the thread continues', async () => {
  const { thread } = start();
  const error = await thread.call('fail', 'invalid').catch((reason) => reason);
  expect(error).toBeInstanceOf(TypeError);
  expect(error.message).toBe('invalid');
  expect(await thread.call('echo', 1)).toBe(1);
  await thread.close();
});

test.each([
  ['that exits', 'exit', 1, 'the thread has ended'],
  ['with an error that no call gets', 'fail', 'uncaught', 'uncaught'],
] as const)(
  'a thread %s rejects the calls in flight and later ones',
  async (_, operation, argument, message) => {
    const { thread, onEnd } = start();
    await thread.started;
    thread.post(operation, argument as never);
    await expect(thread.call('later', 1)).rejects.toThrow(message);
    await expect(thread.call('echo', 1)).rejects.toThrow(message);
    expect(onEnd).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ message }));
  },
);

test('a thread whose module fails does not start', async () => {
  const thread = new Thread(pathToFileURL('/missing.ts'));
  await expect(thread.started).rejects.toThrow('/missing.ts');
});

test('a module finds its counterpart in TypeScript, and compiled', () => {
  expect(moduleBeside('file:///lib/thread.ts', 'worker').href).toBe('file:///lib/worker.ts');
  expect(moduleBeside('file:///lib/thread.js', 'worker').href).toBe('file:///lib/worker.js');
});
