/** The module of the app; see browserModules.ts. */
declare module 'audit-page:domain' {
  export const domain: import('../domain.ts').Domain;
}
