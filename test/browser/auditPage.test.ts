import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ElementHandle, Page } from 'puppeteer-core';
import { describe, expect, test } from 'vitest';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import { NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { signCheckpoint } from '../../src/transparency/signCheckpoint.ts';
import { formatVerifierKey, parseVerifierKey, verifierKey } from '../../src/transparency/signedNote.ts';
import { accessibilityProblems } from '../support/axe.ts';
import { browserOfFile, HAS_BROWSER } from '../support/browser.ts';
import { runCli, succeeded } from '../support/cli.ts';
import { auditorToken } from '../support/eventStream.ts';
import { signedJwt } from '../support/jwt.ts';
import { startService, startServiceWithTree } from '../support/service.ts';
import { appendMany, openIn } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const { open } = browserOfFile();

const PHONE = { width: 400, height: 860 };
const LIVE = '.live[data-state="Live"]';

type Service = Awaited<ReturnType<typeof startService>>;

async function signIn(page: Page, token: string): Promise<void> {
  await page.locator('#token').fill(token);
  await page.locator('#sign-in button').click();
}

/** The page of an auditor who is signed in, when it is live. */
async function auditPage(service: Service, size?: Parameters<typeof open>[1]) {
  const opened = await open(`${service.url}/audit`, size);
  const token = await auditorToken(service.dir);
  await signIn(opened.page, token);
  await opened.page.waitForSelector(LIVE);
  return { ...opened, token };
}

const texts = (page: Page, selector: string): Promise<string[]> =>
  page.$$eval(selector, (elements) => elements.map((element) => element.textContent?.trim() ?? ''));

/** Waits until these are the texts of the elements. */
const becomes = (page: Page, selector: string, expected: unknown): Promise<void> =>
  expect.poll(() => texts(page, selector)).toEqual(expected);

const names = '#timeline tbody .name';

async function filter(page: Page, fields: Record<string, string>): Promise<void> {
  for (const [name, value] of Object.entries(fields))
    await page.locator(`#timeline [name="${name}"]`).fill(value);
  await page.locator('#timeline form .primary').click();
}

/** Keeps files that the page saves; returns a function that waits for the next one. */
async function catchFiles(page: Page) {
  await page.evaluate(`{
    const contents = new Map();
    globalThis.files = [];
    URL.createObjectURL = (blob) => {
      contents.set('data:,' + contents.size, blob);
      return 'data:,' + (contents.size - 1);
    };
    HTMLAnchorElement.prototype.click = function () {
      files.push([this.download, contents.get(this.href)]);
    };
  }`);
  return async (): Promise<[name: string, text: string]> => {
    await page.waitForFunction('files.length > 0');
    return (await page.evaluate(`{
      const [name, blob] = files.shift();
      blob.text().then((text) => [name, text]);
    }`)) as [string, string];
  };
}

describe.skipIf(!HAS_BROWSER)('the audit page', () => {
  test('says why a token is refused, and keeps one nowhere but in memory', async () => {
    const service = await startService();
    const { privateKey } = loadOrCreateKey(join(service.dir, 'key.json'));
    const { page, requests } = await open(`${service.url}/audit`);
    const expired = signedJwt(privateKey, { sub: 'carol', scope: 'audit', exp: 1 });
    const refusals: [string, string][] = [
      ['nonsense', 'The token is not valid.'],
      [expired, 'The token has expired.'],
      [
        await issueToken(privateKey, { subject: 'carol', lifetime: '1h' }),
        'This requires a token whose scope contains audit.',
      ],
    ];
    for (const [token, message] of refusals) {
      await signIn(page, token);
      await becomes(page, '#sign-in .problem', [message]);
    }
    const token = await auditorToken(service.dir);
    await signIn(page, token);
    await page.waitForSelector(LIVE);
    expect(requests.filter((url) => url.includes(token))).toEqual([]);
    const kept = await page.evaluate(
      '[document.cookie, localStorage.length, sessionStorage.length, document.documentElement.outerHTML]',
    );
    expect(kept).toEqual(['', 0, 0, expect.not.stringContaining(token)]);

    await page.locator('#sign-out').click();
    await page.waitForSelector('#sign-in:not([hidden])');
    expect(await page.$eval('#timeline tbody', ({ children }) => children.length)).toBe(0);

    await page.evaluateOnNewDocument('delete JSON.rawJSON');
    await page.reload();
    await becomes(page, '.too-old:not([hidden])', [expect.stringContaining('This browser is too old')]);
    expect(await page.$('main:not([hidden])')).toBe(null);
  });

  test('shows the newest events first, and those that arrive, as the filters allow', async () => {
    const service = await startService();
    const [alice, bob] = [service.as('alice'), service.as('bob')];
    await alice.create(1, { name: 'Fern', tag: 'indoor' });
    await bob.create(1, { name: 'Oak' });
    const { page, problems, requests } = await auditPage(service);
    await becomes(page, names, ['Oak', 'Fern']);
    await alice.create(2, { name: 'Ivy' });
    await becomes(page, names, ['Ivy', 'Oak', 'Fern']);

    await filter(page, { user: 'alice' });
    await becomes(page, names, ['Ivy', 'Fern']);
    await page.waitForSelector(LIVE);
    await bob.create(2, { name: 'Elm' });
    await alice.create(3, { name: 'Moss' });
    await becomes(page, names, ['Moss', 'Ivy', 'Fern']);
    await filter(page, { id: '2' });
    await becomes(page, names, ['Ivy']);
    await filter(page, { id: 'two' });
    await becomes(page, '#timeline .problem', ['id must be a 64-bit integer in decimal digits.']);
    await filter(page, { user: '', id: '', until: '2020-01-01' });
    await becomes(page, '#timeline .count', ['No events']);
    await filter(page, { until: 'yesterday' });
    await becomes(page, '#timeline .problem', ['Until must be a time such as 2026-03-01 12:00.']);
    await page.locator('#timeline form [type="reset"]').click();
    await becomes(page, names, ['Moss', 'Elm', 'Ivy', 'Oak', 'Fern']);

    expect(requests.filter((url) => !url.startsWith(service.url))).toEqual([]);
    expect(problems).toEqual([
      expect.stringContaining('400 (Bad Request)'),
      expect.stringContaining('400 (Bad Request)'),
    ]);
  });

  test('resumes without a gap or a duplicate after the server restarts', async () => {
    const first = await startService();
    await first.as('alice').create(1, { name: 'Fern' });
    const { page } = await auditPage(first);
    await becomes(page, names, ['Fern']);
    await first.as('alice').create(2, { name: 'Ivy' });
    await becomes(page, names, ['Ivy', 'Fern']);
    await first.close();
    await page.waitForSelector('.live[data-state="Reconnecting"]');

    const env = { DATA_DIR: first.dir, PORT: new URL(first.url).port };
    const second = await startService(env);
    await second.as('alice').create(3, { name: 'Moss' });
    await becomes(page, names, ['Moss', 'Ivy', 'Fern']);
    await page.waitForSelector(LIVE);

    await second.close();
    await startService({ ...env, KEY_FILE: join(tempDir(), 'key.json') });
    await page.waitForSelector('#sign-in:not([hidden])');
    await becomes(page, '#sign-in .problem', ['The token is not valid.']);
  });

  test('pages through more events than it holds', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    await appendMany(log, 450);
    await log.close();
    const service = await startService({ DATA_DIR: dir });
    const { page } = await auditPage(service);
    const positions = '#timeline tbody .position';
    const between = (from: number, to: number): string[] =>
      Array.from({ length: from - to + 1 }, (_, i) => String(from - i));
    await becomes(page, positions, between(450, 251));
    await page.locator('[data-page="older"]').click();
    await becomes(page, positions, between(250, 51));
    await service.as('alice').create(1, { name: 'Fern' });
    await becomes(page, '[data-page="newest"]', ['Newest (1 new)']);
    await page.locator('[data-page="older"]').click();
    await becomes(page, positions, between(50, 1));
    await page.locator('[data-page="newer"]').click();
    await becomes(page, positions, between(250, 51));
    await page.locator('[data-page="newest"]').click();
    await becomes(page, positions, between(451, 252));
  });

  test('saves the events that the filters allow, and selects a bar of time', async () => {
    const service = await startService();
    await service.as('alice').create(1, { name: 'Fern' });
    await service.as('bob').create(1, { name: 'Oak' });
    const { page, token, problems } = await auditPage(service);
    const nextFile = await catchFiles(page);
    await filter(page, { user: 'bob' });
    await becomes(page, names, ['Oak']);
    await page.locator('.download').click();
    const [, saved] = await nextFile();
    const response = await fetch(`${service.url}/events?user=bob`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(saved).toBe(await response.text());

    await page.locator('.bars button').click();
    await becomes(page, names, ['Oak']);
    const since = await page.$eval(
      '[name="since"]',
      (field) => (field as unknown as { value: string }).value,
    );
    expect(problems).toEqual([]);
    expect(since).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/);
  });

  test('shows the plants of a user at any time, as the command plants does', async () => {
    const service = await startService();
    const alice = service.as('alice');
    await service.as('bob').create(1, { name: 'Oak' });
    for (const [id, name] of ['Fern', 'Ivy', 'Moss'].entries()) await alice.create(id, { name });
    const { page, problems } = await auditPage(service);
    await page.locator('nav [href="#as-it-was"]').click();
    const plants = '#as-it-was tbody .name';
    await page.locator('#as-it-was [name="user"]').fill('alice');
    await page.locator('#as-it-was .primary').click();
    await becomes(page, plants, ['Fern', 'Ivy', 'Moss']);
    await page.locator('#as-it-was [type="range"]').fill('2');
    await becomes(page, plants, ['Fern', 'Ivy']);
    const [when = ''] = await texts(page, '.when');
    const at = `${when.slice(0, 23).replace(' ', 'T')}Z`;
    const command = await runCli(['plants', '--user', 'alice', '--at', at], { DATA_DIR: service.dir });
    expect(JSON.parse(succeeded(command))).toEqual([{ name: 'Fern' }, { name: 'Ivy' }]);
    await page.locator('#as-it-was [type="range"]').fill('0');
    await becomes(page, '.when', ['Before the first plant: 0 plants']);
    expect(problems).toEqual([]);

    await page.locator('nav [href="#timeline"]').click();
    await page.locator('#timeline tbody tr:nth-child(2) .toggle').click();
    await page.evaluate('navigator.clipboard.writeText = async () => { throw new Error() }');
    await page.locator('.detail ::-p-text(Copy JSON)').click();
    await becomes(page, '.detail .said', ['The browser does not allow it; select the text.']);
    await page.evaluate('delete navigator.clipboard.writeText');
    const permissions = ['clipboard-read', 'clipboard-sanitized-write'] as const;
    await page.browserContext().overridePermissions(service.url, [...permissions]);
    await page.locator('.detail ::-p-text(Copy JSON)').click();
    await becomes(page, '.detail .said', ['Copied.']);
    expect([await page.evaluate('navigator.clipboard.readText()')]).toEqual(await texts(page, '.detail pre'));
    await page.locator('.detail ::-p-text(Receipt)').click();
    await becomes(page, '.detail .said', ['The service has no Merkle tree, so it gives no receipts.']);
    await page.locator('.detail ::-p-text(As it was then)').click();
    await becomes(page, plants, ['Fern', 'Ivy']);

    await page.locator('#as-it-was [name="user"]').fill('nobody');
    await page.locator('#as-it-was .primary').click();
    await becomes(page, '#as-it-was .problem', ['The log has no event of the user "nobody".']);
  });

  test('shows texts of events as text, whatever they hold', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    const hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
    const mark = { $correlationId: 'r', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' };
    const written = [
      { user: hostile, name: hostile, tag: `</td>${hostile}` },
      { user: 'bob', name: '\u202Egnp.nref\u2066\0\x1b[31m', tag: '\u200B' },
      { user: 'carol', name: 'm'.repeat(2 ** 20), tag: '' },
      { user: 'dora', name: { toString: 1 }, tag: ['x'] },
    ];
    for (const [i, { user, ...plant }] of written.entries()) {
      const data = { id: String(i), user, ...plant } as never;
      const id = `00000000-0000-7000-8000-00000000000${i}`;
      await log.append(`plant-${user}/${i}`, { id, type: `Type${hostile}`, data, metadata: mark }, NO_STREAM);
    }
    await log.close();
    const { page, problems } = await auditPage(await startService({ DATA_DIR: dir }));
    await becomes(page, names, [
      '',
      `${'m'.repeat(120)}…`,
      '[U+202E]gnp.nref[U+2066][U+0000][U+001B][31m',
      hostile,
    ]);
    expect((await texts(page, '#timeline tbody .tag')).slice(2)).toEqual([
      '[U+200B]',
      `</td>${hostile}`.slice(0, 120),
    ]);
    for (const toggle of await page.$$('.toggle')) await toggle.click();
    await page.waitForFunction(`document.querySelectorAll('.detail').length === 4`);
    const shown = await texts(page, '.detail pre bdi');
    expect(shown[1]?.length).toBe(4_000);
    expect(shown[2]).toContain('"name": "\\u202egnp.nref\\u2066\\u0000\\u001b[31m"');
    expect(JSON.parse(shown[3] ?? '').data).toEqual({
      id: '0',
      user: hostile,
      name: hostile,
      tag: `</td>${hostile}`,
    });
    await page.locator('.detail ::-p-text(Show all)').click();
    expect((await texts(page, '.detail pre bdi'))[1]?.length).toBeGreaterThan(2 ** 20);
    expect(await page.title()).toBe('Audit – Plant store');
    expect(await page.$$('tbody img, tbody script')).toEqual([]);
    expect(problems).toEqual([]);
  });

  test('checks what the log signs, all of its events, and evidence', async () => {
    const service = await startServiceWithTree({ LOG_ORIGIN: 'plants.example/log' });
    await Promise.all(
      Array.from({ length: 300 }, (_, i) => service.as('alice').create(i, { name: `Fern ${i}` })),
    );
    const carol = service.as('carol', 'audit');
    const get = async (path: string): Promise<string> => (await carol.request(path)).text();
    const own = (await get('/log-key')).trim();
    const { page, problems } = await auditPage(service);
    const nextFile = await catchFiles(page);
    await filter(page, { id: '7' });
    await becomes(page, names, ['Fern 7']);
    await page.locator('#timeline .toggle').click();
    await page.locator('.detail ::-p-text(Receipt)').click();
    await becomes(page, '.detail .said', ['Saved; “Check” verifies it.']);
    const [receiptFile, receipt] = await nextFile();
    expect(receiptFile).toBe('plant-7.tlog-proof');
    await page.locator('nav [href="#check"]').click();
    const result = (card: number): string => `#check .card:nth-child(${card}) .result > p:first-child`;
    const check = async (key: string): Promise<void> => {
      await page.locator('#check [name="key"]').fill(key);
      await page.locator('#check .key button').click();
    };

    await check('nonsense');
    await becomes(page, result(1), ['the key must be a verifier key: NAME+ID+KEY']);
    const { name } = parseVerifierKey(own);
    const other = verifierKey(name, Buffer.alloc(32, 7));
    await check(formatVerifierKey(other));
    await becomes(page, result(1), ['The service states another key. One of them is not that of this log.']);
    await becomes(page, result(2), [`no signature is by ${name}+${other.id}`]);
    expect(await page.$('.read:enabled')).toBe(null);
    await check(own);
    await becomes(page, result(1), ['The service states the same key.']);
    await becomes(page, result(2), ['The signature is valid.']);
    expect(await texts(page, '#check dd')).toEqual([name, '300', expect.stringMatching(/^[\da-f]{64}$/)]);

    await page.locator('.read').click();
    await becomes(page, result(3), ['The 300 events of the log have the root that it signs.']);

    const dir = tempDir();
    const choose = async (file: string, text: string): Promise<void> => {
      writeFileSync(join(dir, file), text);
      const input = await page.waitForSelector('[type="file"]');
      await (input as ElementHandle<never>).uploadFile(join(dir, file));
    };
    const earlier = await get('/checkpoint');
    await page.locator('.keep').click();
    expect(await nextFile()).toEqual(['checkpoint-300', earlier]);
    await service.as('alice').create(300, { name: 'Ivy' });
    await expect.poll(async () => (await get('/checkpoint')).split('\n')[1]).toBe('301');
    await choose('checkpoint', earlier);
    await becomes(page, result(4), [
      'The checkpoint of 300 events holds: it is signed, and the log of 301 events still begins with it.',
    ]);
    await choose('plant.tlog-proof', receipt);
    await becomes(page, result(4), [expect.stringMatching(/^The receipt of event \d+ holds: it is signed/)]);
    await page.evaluate(`{
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['dropped'], 'dropped'));
      document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer, cancelable: true }));
    }`);
    await becomes(page, result(4), ['dropped: the text is not a signed note']);
    await choose('plant.tlog-proof', receipt);
    await page.waitForSelector('#check .card:nth-child(4) .good');
    expect((await texts(page, '#check .card:nth-child(4) pre'))[0]).toContain('"name":"Fern 7"');
    await choose('plant.tlog-proof', receipt.replace(/^index .*$/m, 'index 3000'));
    await becomes(page, result(4), [expect.stringContaining('plant.tlog-proof: the proof is invalid')]);

    const { privateKey: key } = loadOrCreateKey(join(service.dir, 'log-key.json'));
    const signed = (size: number): string =>
      signCheckpoint({ size, root: '7'.repeat(64) }, { origin: name, key });
    await choose('forked', signed(200));
    await becomes(page, result(4), [expect.stringContaining('but the log does not begin with it any more')]);
    await choose('longer', signed(302));
    await becomes(page, result(4), [expect.stringContaining('it has signed 302 events, and now signs 301')]);
    await choose('forged', signed(200).replace('\n200\n', '\n201\n'));
    await becomes(page, result(4), [`forged: the signature of ${name} is invalid`]);
    await choose('other', '\xff');
    await becomes(page, result(4), ['other: the text is not a signed note']);
    expect(problems).toEqual([]);
  });

  test('says so when a signature cannot be verified, reading is stopped, or entries do not have the signed root', async () => {
    const service = await startServiceWithTree();
    await service.as('alice').create(1, { name: 'Fern' });
    const key = await (await service.as('carol', 'audit').request('/log-key')).text();
    const { page } = await auditPage(service);
    await page.locator('nav [href="#check"]').click();
    await page.evaluate(`crypto.subtle.importKey = async () => {
      throw new DOMException('Unrecognized name', 'NotSupportedError');
    }`);
    await page.locator('#check [name="key"]').fill(key);
    await page.locator('#check .key button').click();
    await becomes(page, '#check .card:nth-child(2) .bad', [expect.stringContaining('has no Ed25519')]);
    await page.evaluate('delete crypto.subtle.importKey');
    await page.locator('#check .key button').click();
    await page.waitForSelector('.read:enabled');
    await page.setRequestInterception(true);
    let isHeld = true;
    page.on('request', (request) => {
      if (!request.url().includes('/tile/entries/')) return void request.continue();
      if (isHeld) return;
      void request.respond({
        status: 200,
        contentType: 'application/octet-stream',
        body: Buffer.from('\0\x04Fern'),
      });
    });
    await page.locator('.read').click();
    await page.locator('.stop').click();
    await becomes(page, '#check .card:nth-child(3) .result', ['Stopped: the log is not checked.']);
    isHeld = false;
    await page.locator('.read').click();
    await becomes(page, '#check .card:nth-child(3) .result .bad', [
      expect.stringContaining('The events of the log do not have the root that it signs'),
    ]);
  });

  test('says so when the service has no Merkle tree', async () => {
    const { page } = await auditPage(await startService({ MERKLE_TREE: 'off' }));
    await page.locator('nav [href="#check"]').click();
    await page.waitForSelector('.no-tree:not([hidden])');
    expect((await texts(page, '.no-tree'))[0]).toContain('MERKLE_TREE=off');
    expect(await page.$('.steps:not([hidden])')).toBe(null);
  });

  test('is usable by keyboard', async () => {
    const service = await startService();
    for (const [id, name] of ['Fern', 'Ivy'].entries()) await service.as('alice').create(id, { name });
    const { page } = await open(`${service.url}/audit`);
    await page.focus('#token');
    await page.keyboard.sendCharacter(await auditorToken(service.dir));
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await becomes(page, names, ['Ivy', 'Fern']);
    await page.focus('.download');
    await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.detail');
    expect((await texts(page, '.detail pre'))[0]).toContain('"name": "Fern"');
    await page.keyboard.press('Space');
    expect(await page.$('.detail')).toBe(null);
  });

  test('is accessible on a dark phone and on a light wide screen, and nothing is beyond its width', async () => {
    const service = await startServiceWithTree();
    await service.as('alice').create(1, { name: 'Fern', tag: 'W'.repeat(200) });
    const { page } = await open(`${service.url}/audit`);
    const screens = [
      [PHONE, 'dark'],
      [{ width: 1600, height: 1000 }, 'light'],
    ] as const;
    const expectAccessible = async (): Promise<void> => {
      for (const [size, scheme] of screens) {
        await page.setViewport(size);
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
        await page.waitForFunction('document.getAnimations().length === 0');
        expect(await accessibilityProblems(page), scheme).toEqual({});
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(size.width);
      }
    };
    await expectAccessible();
    await signIn(page, await auditorToken(service.dir));
    await page.waitForSelector(LIVE);
    await page.locator('.toggle').click();
    await page.waitForSelector('.detail');
    await expectAccessible();
    await page.locator('.detail ::-p-text(As it was then)').click();
    await page.waitForSelector('.plants .name');
    await expectAccessible();
    await page.locator('nav [href="#check"]').click();
    await page
      .locator('#check [name="key"]')
      .fill(await (await service.as('carol').request('/log-key')).text());
    await page.locator('#check .key button').click();
    await page.waitForSelector('.read:enabled');
    await expectAccessible();
  });
});
