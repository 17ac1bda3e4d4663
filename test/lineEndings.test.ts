import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { canRun, ROOT, run } from './support/process.ts';

test.runIf(canRun('a clone', ['git', '--version']))(
  'a clone with core.autocrlf=true, as that of Git for Windows, has the bytes of the repository',
  async () => {
    const dir = tempDir();
    const files = [
      '.gitattributes',
      'bin/plant-store',
      'bin/node.sh',
      'deploy/systemd/install',
      'test/heavy/version1.tar.gz',
    ];
    for (const file of files) cpSync(join(ROOT, file), join(dir, 'origin', file));
    const script = `cd '${dir}/origin' && git init --quiet && git add --all &&
      git -c user.name=test -c user.email=test@example commit --quiet -m files &&
      git -c core.autocrlf=true clone --quiet '${dir}/origin' '${dir}/clone'`;
    expect(await run({ command: ['sh', '-c', script] })).toMatchObject({ code: 0 });
    for (const file of files)
      expect([file, readFileSync(join(dir, 'clone', file))]).toEqual([file, readFileSync(join(ROOT, file))]);
  },
);
