declare module 'audit-page:domain' {
  export const domain: import('../domain.ts').Domain;
}
