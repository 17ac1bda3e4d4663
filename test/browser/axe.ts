import type axe from 'axe-core';
import type { Page } from 'puppeteer-core';

/** The serious and critical accessibility problems that axe finds in a page: each rule with its elements. */
export async function accessibilityProblems(page: Page): Promise<Record<string, string[]>> {
  const { source } = (await import('axe-core')).default;
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(source);
  const { violations } = await page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run());
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return Object.fromEntries(
    serious.map(({ id, nodes }) => [id, nodes.map(({ target }) => target.join(' '))]),
  );
}
