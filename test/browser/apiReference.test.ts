import type { Page } from 'puppeteer-core';
import { expect, test } from 'vitest';
import { succeeded } from '../support/cli.ts';
import { run } from '../support/process.ts';
import { serviceOfFile } from '../support/service.ts';
import { accessibilityProblems } from './axe.ts';
import { HAS_BROWSER, openPage } from './browser.ts';

const { url, as, bearer } = await serviceOfFile({ MERKLE_TREE: 'on' });

const operation = (id: string) => `section:has(> [id="/${id}"])`;
const CREATE = operation('plants/createPlant');
const LIST = operation('plants/listPlants');
const REPLAY = operation('audit/replayEvents');
const ERASE = operation('erasures/eraseUser');

/** Sends the form of an operation; returns the status and the body that the page shows. */
async function tryOut(page: Page, section: string, body?: string): Promise<[string, string]> {
  if (!(await page.$(`${section} .try[open]`))) await page.locator(`${section} .try > summary`).click();
  await page.locator(`${section} [type="reset"]`).click();
  if (body !== undefined) await page.locator(`${section} textarea`).fill(body);
  await page.locator(`${section} button:not([type])`).click();
  await page.waitForSelector(`${section} .result[data-complete]`);
  const [status = '', , text = ''] = await page.$$eval(`${section} .result pre`, (parts) =>
    parts.map(({ textContent }) => textContent ?? ''),
  );
  return [status.split(' ')[0] as string, text];
}

test.skipIf(!HAS_BROWSER)(
  'the API reference is accessible in both colour schemes, with all of it open, wide and narrow',
  async () => {
    const { page, problems } = await openPage(`${url}/docs`);
    expect(await page.$eval('h1', ({ firstChild }) => firstChild?.textContent?.trim())).toBe(
      await page.title(),
    );
    expect(await page.$$eval('main a', (links) => links.map(({ href }) => href))).toContain(`${url}/audit`);
    expect(
      await page.$$eval(`${LIST} pre .key`, (keys) => keys.map(({ textContent }) => textContent)),
    ).toEqual(['"name":', '"tag":', '"name":']);
    for (const width of [390, 1440]) {
      await page.setViewport({ width, height: 900 });
      const isListed = await page.$eval('nav a', (link) => link.checkVisibility());
      expect(isListed, 'on a narrow screen, the contents are closed').toBe(width === 1440);
    }
    await page.$$eval('details', (all) => {
      for (const details of all) details.open = true;
    });
    for (const value of ['dark', 'light'])
      for (const width of [1440, 390]) {
        await page.setViewport({ width, height: 900 });
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
        expect(await accessibilityProblems(page), value).toEqual({});
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      }
    expect(problems).toEqual([]);
  },
);

test.skipIf(!HAS_BROWSER)(
  'a hash link leads to an operation; it shows an error without a token, and with one it creates and lists plants and replays the log',
  async () => {
    await as('alice').create(1, { name: 'Oak' });
    const { page, requests, problems } = await openPage(`${url}/docs#/plants/listPlants`);
    expect(await page.$eval(':target', ({ textContent }) => textContent)).toContain('List your plants');
    const [refusedStatus, refused] = await tryOut(page, LIST);
    expect([refusedStatus, JSON.parse(refused)]).toEqual(['401', expect.objectContaining({ error: 40101 })]);
    expect(problems.splice(0)).toEqual([expect.stringContaining('401 (Unauthorized)')]);

    expect(await page.$eval('.token', ({ textContent }) => textContent)).toContain(
      'bin/plant-store token alice',
    );
    await page.locator('#bearer').fill((await bearer('carol', 'audit')).replace('Bearer ', ''));
    const isMasked = `getComputedStyle(document.querySelector('#bearer')).webkitTextSecurity`;
    expect(await page.evaluate(isMasked)).toBe('disc');
    const plant = '{"id":9223372036854775807,"name":"<b>Fern"}';
    expect(await tryOut(page, CREATE, plant)).toEqual(['200', '{"name":"<b>Fern"}']);
    expect(await tryOut(page, LIST)).toEqual(['200', '[{"name":"<b>Fern"}]']);
    const [replayStatus, lines] = await tryOut(page, REPLAY);
    const events = lines.split('\n').filter((line) => line.startsWith('{'));
    expect([replayStatus, ...events.map((event) => JSON.parse(event).data)]).toEqual([
      '200',
      { id: '1', user: 'alice', name: 'Oak' },
      { id: '9223372036854775807', user: 'carol', name: '<b>Fern' },
    ]);
    await page.locator(`${REPLAY} select`).fill('text/event-stream');
    await page.locator(`${REPLAY} button:not([type])`).click();
    const result = JSON.stringify(`${REPLAY} .result`);
    // while the stream goes on
    await page.waitForFunction(`document.querySelector(${result})?.textContent.includes('id: 2')`);
    expect(requests).toEqual(expect.arrayContaining([`${url}/events?limit=100`]));
    expect(problems).toEqual([]);
  },
);

test.skipIf(!HAS_BROWSER)(
  'an operation that destroys asks first, with the request; its example names no user',
  async () => {
    await as('alice').create(1, { name: 'Oak' });
    const { page, requests, problems } = await openPage(`${url}/docs#/erasures/eraseUser`);
    await page.locator('#bearer').fill((await bearer('dana', 'erase')).replace('Bearer ', ''));
    const questions: string[] = [];
    page.once('dialog', async (dialog) => {
      questions.push(dialog.message());
      await dialog.dismiss();
    });
    await page.locator(`${ERASE} .try > summary`).click();
    await page.locator(`${ERASE} button:not([type])`).click();
    await expect.poll(() => questions).toHaveLength(1);
    expect(questions[0]).toMatch(
      RegExp(`^POST ${url}/erasures\\s+\\{\\s+"user": "nobody@example.invalid"\\s+\\}`),
    );
    page.once('dialog', (dialog) => dialog.accept());
    const [status, erased] = await tryOut(page, ERASE);
    expect([status, JSON.parse(erased)]).toEqual(['200', expect.objectContaining({ events: 0 })]);
    expect(requests.filter((one) => one.endsWith('/erasures'))).toHaveLength(1);
    expect(await as('alice').list()).toContainEqual({ name: 'Oak' });
    expect(problems).toEqual([]);
  },
);

test.skipIf(!HAS_BROWSER)(
  'examples have the address of the service, and a button that copies them; the contents mark the section in sight',
  async () => {
    const { page, problems } = await openPage(`${url}/docs`);
    await page.evaluate('navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }');
    await page.locator('.copy').click();
    expect(await page.evaluate('copied')).toMatch(RegExp(`^URL=${url}\nTOKEN=`));
    expect(await page.$eval('main', ({ textContent }) => textContent)).not.toContain('127.0.0.1:3000');

    await page.locator(`${CREATE} .try > summary`).click();
    const command = `${CREATE} .try .code code`;
    const lines = async () => (await page.$eval(command, ({ textContent }) => textContent))?.split(' \\\n  ');
    const example = await page.$eval(`${CREATE} textarea`, ({ value }) => value);
    expect(await lines()).toEqual([
      `curl '${url}/plants'`,
      '-H "Authorization: Bearer $TOKEN"',
      "-H 'Content-Type: application/json'",
      `-d '${JSON.stringify(JSON.parse(example))}'`,
    ]);
    for (const [body, sent] of [
      [
        '{ "n": [1.0, 12345678901234567890],\n\t"a \\" b": "c  d" }',
        '{"n":[1.0,12345678901234567890],"a \\" b":"c  d"}',
      ],
      ['{ "id": 1,\n}', '{ "id": 1,\n}'],
    ] as const) {
      await page.locator(`${CREATE} textarea`).fill(body);
      expect((await lines())?.at(-1)).toBe(`-d '${sent}'`);
    }
    await page.$eval(`${CREATE} form`, (form) => {
      form.dataset.method = 'PUT';
      form.oninput?.(new Event('input'));
    });
    expect((await lines())?.[0]).toBe(`curl -X PUT '${url}/plants'`);
    await page.$eval(`${CREATE} form`, (form) => {
      form.dataset.method = 'POST';
    });
    await page.locator(`${CREATE} textarea`).fill(`{\n  "id": 7,\n  "name": "Ann's"\n}`);
    await page.locator(`${CREATE} .copy`).click();
    const curl = (await page.evaluate('copied')) as string;
    const env = { TOKEN: (await bearer('alice')).replace('Bearer ', '') };
    expect(succeeded(await run({ command: ['sh', '-c', curl.replace('curl', 'curl -sS')], env }))).toBe(
      `{"name":"Ann's"}`,
    );

    const marked = () =>
      page.$$eval('nav [aria-current]', (links) => links.map(({ textContent }) => textContent));
    for (const [id, text] of [
      ['/audit/replayEvents', 'Replay the log; an event stream continues with each new event'],
      ['pages', 'Pages'],
    ]) {
      await page.evaluate(`location.hash = ${JSON.stringify(`#${id}`)}`);
      await expect.poll(marked).toEqual([text]);
    }
    // from the middle of one section to the middle of another
    for (const [element, text] of [
      [`${REPLAY} pre`, 'Replay the log; an event stream continues with each new event'],
      [`${CREATE} textarea`, 'Create a plant; idempotent'],
    ]) {
      await page.$eval(element as string, (one) => one.scrollIntoView());
      await expect.poll(marked).toEqual([text]);
    }
    expect(problems).toEqual([]);
  },
);
