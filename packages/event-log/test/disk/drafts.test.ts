import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeDraft, removeDrafts, takeDraft } from '../../src/disk/drafts.ts';

const MODULE = new URL('../../src/disk/drafts.ts', import.meta.url).href;

/** A process that runs this code, with the functions of the module, and prints a line when it is done. */
async function inProcess(code: string) {
  const script = `import * as drafts from ${JSON.stringify(MODULE)};
    import { writeFileSync } from 'node:fs';
    ${code}
    console.log('done');
    setInterval(() => {}, 1_000);`;
  const args = ['--input-type=module', '--eval', script];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return {
    async kill(): Promise<void> {
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}

/** A process that has made a draft, with a file in it. */
const makerIn = (dataDir: string) =>
  inProcess(`globalThis.draft = drafts.makeDraft(${JSON.stringify(dataDir)});
    writeFileSync(draft.dir + '/view.db', 'alice');`);

const draftsIn = (dataDir: string): string[] =>
  readdirSync(join(dataDir, 'drafts')).filter((name) => !name.startsWith('drafts.lock'));

describe('the drafts of a data directory', () => {
  test('are removed if they are of killed processes, and not while a process has one', async () => {
    const dataDir = tempDir();
    expect(await removeDrafts(dataDir)).toBe(true);
    expect(readdirSync(dataDir)).toEqual([]);
    const [first, second] = [await makerIn(dataDir), await makerIn(dataDir)];
    await first.kill();
    expect(await removeDrafts(dataDir)).toBe(false);
    expect(draftsIn(dataDir)).toHaveLength(2);
    await second.kill();
    expect(await removeDrafts(dataDir)).toBe(true);
    expect(draftsIn(dataDir)).toEqual([]);
  });

  test('are removed by the process that has made them', () => {
    const dataDir = tempDir();
    {
      using draft = makeDraft(dataDir);
      writeFileSync(join(draft.dir, 'view.db'), 'alice');
    }
    expect(draftsIn(dataDir)).toEqual([]);
  });

  test('are never removed between their creation and their use', async () => {
    const dataDir = tempDir();
    let isOver = false;
    const made = inProcess(`for (let i = 0; i < 300; i++) {
      using draft = drafts.makeDraft(${JSON.stringify(dataDir)});
      writeFileSync(draft.dir + '/view.db', 'alice');
    }`).finally(() => {
      isOver = true;
    });
    while (!isOver) {
      await removeDrafts(dataDir);
      await nextTurn();
    }
    await made;
    expect(draftsIn(dataDir)).toEqual([]);
  });

  test.for<[what: string, prepare: (path: string) => void]>([
    [
      'a directory of the operator',
      (path) => {
        mkdirSync(path);
        writeFileSync(join(path, 'report.txt'), 'kept');
      },
    ],
    [
      'a link to one',
      (path) => {
        mkdirSync(`${path}.other`);
        writeFileSync(join(`${path}.other`, 'drafts.lock'), '');
        writeFileSync(join(`${path}.other`, 'report.txt'), 'kept');
        symlinkSync(`${path}.other`, path);
      },
    ],
    ['a link to nothing', (path) => symlinkSync(`${path}.none`, path)],
    ['a file', (path) => writeFileSync(path, 'kept')],
  ])('are not %s, which is never changed', async ([, prepare]) => {
    const dataDir = tempDir();
    const path = join(dataDir, 'drafts');
    prepare(path);
    const before = readdirSync(dataDir, { recursive: true });
    expect(await removeDrafts(dataDir)).toBe(true);
    expect(() => makeDraft(dataDir)).toThrow('has no drafts of this program');
    expect(() => takeDraft(path)).toThrow('has no drafts of this program');
    expect(readdirSync(dataDir, { recursive: true })).toEqual(before);
  });

  test('do not include what a link in them names', async () => {
    const dataDir = tempDir();
    const other = join(tempDir(), 'report.txt');
    writeFileSync(other, 'kept');
    makeDraft(dataDir)[Symbol.dispose]();
    symlinkSync(join(other, '..'), join(dataDir, 'drafts', 'link'));
    expect(await removeDrafts(dataDir)).toBe(true);
    expect(draftsIn(dataDir)).toEqual([]);
    expect(readFileSync(other, 'utf8')).toBe('kept');
  });
});

describe('a draft beside its target', () => {
  test('is empty, also after a process with it was killed, and of one process at a time', async () => {
    const dir = join(tempDir(), 'copy.db.partial');
    const maker = await inProcess(`globalThis.draft = drafts.takeDraft(${JSON.stringify(dir)});
      writeFileSync(draft.dir + '/copy.db', 'alice');`);
    expect(() => takeDraft(dir)).toThrow(`another process uses ${dir}`);
    expect(existsSync(join(dir, 'copy.db'))).toBe(true);
    await maker.kill();
    {
      using draft = takeDraft(dir);
      expect(draft.dir).toBe(dir);
      expect(existsSync(join(dir, 'copy.db'))).toBe(false);
    }
    expect(existsSync(dir)).toBe(false);
  });
});
