import type axe from 'axe-core';
import type { Page } from 'puppeteer-core';

/** The rules of WCAG 2.2, level AA; axe leaves out those of 2.2, such as target-size, by default. */
export const WCAG_2_2_AA = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/**
 * The accessibility problems that axe finds in a page, each rule with its elements: all problems of rules with these tags,
 * or, without tags, the serious and critical ones.
 */
export async function accessibilityProblems(page: Page, tags?: string[]): Promise<Record<string, string[]>> {
  const { source } = (await import('axe-core')).default;
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(source);
  const { violations } = await page.evaluate(
    (options) => (globalThis as unknown as { axe: typeof axe }).axe.run(options),
    tags ? { runOnly: tags } : {},
  );
  const shown = violations.filter(({ impact }) => tags || impact === 'serious' || impact === 'critical');
  return Object.fromEntries(shown.map(({ id, nodes }) => [id, nodes.map(({ target }) => target.join(' '))]));
}
