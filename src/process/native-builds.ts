/** Whether the builds of native npm packages for models run on this machine. */

/** Architectures for which such packages have builds. */
const BUILT_FOR: readonly string[] = ['x64', 'arm64'];

/**
 * Returns why they do not, as a sentence; null if they should.
 * @param glibc version of the C library of GNU, which the builds for Linux need and Alpine lacks; null without it
 */
export function whyNoNativeBuild(
  platform: string = process.platform,
  arch: string = process.arch,
  glibc: string | null = glibcVersion(),
): string | null {
  if (platform === 'linux' && glibc === null)
    return 'This system has musl (Alpine) in the place of the C library that native packages need';
  if (!BUILT_FOR.includes(arch))
    return `The processor of this system is ${arch}, and native packages are for ${BUILT_FOR.join(' and ')}`;
  if (!['linux', 'darwin', 'win32'].includes(platform)) return `Native packages are not for ${platform}`;
  return null;
}

function glibcVersion(): string | null {
  const { header } = process.report.getReport() as { readonly header: { readonly glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime ?? null;
}
