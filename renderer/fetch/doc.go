// Package fetch brings remote charts into a rendering: from HTTP chart repositories and OCI registries, through
// sluice.lock, with a cache that is addressed by digest. It is the renderer's only input from the network.
//
// Data flows in two steps. Resolve turns a Ref (what the fleet asks for, often a range) into a Locked (one version
// and the digest of its archive); a person does this by `sluice deps lock` and commits the Lock. Archive turns a
// Ref and its Locked into bytes. What Archive returns always has the locked digest, whether it comes from the
// cache or from the network; there is no way to get bytes without naming their digest first.
//
// The package must never:
//   - return bytes whose SHA-256 it has not computed itself;
//   - read or keep more than Options.MaxArchive or Options.MaxIndex of one answer;
//   - send a credential to another scheme, host or port than the one it was given for (Helm's
//     pass_credentials_all is the one exception, and never over plain HTTP or across a redirect), or take one from a
//     URL;
//   - put a credential, a URL's query or a server's own words into an error. Errors are written here, from scratch,
//     and unwrap only to this package's sentinels and to context errors;
//   - read the environment or the clock: both come in through options.
//
// Addresses of private networks are not blocked, since chart repositories inside a company are the rule. Whoever may
// change the fleet's chart references can therefore make the machine that runs `sluice deps lock` send GET requests
// to hosts it can reach. Rendering a locked fleet asks only for what the lock file names.
//
// A Fetcher is safe for concurrent use, and several processes may share one cache directory.
//
// The package is not API: it can change in every release.
package fetch
