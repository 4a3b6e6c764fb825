// Package envelope reads and writes the signed file in which a transfer bundle or a receipt crosses a gap between two
// networks.
//
// An envelope is an uncompressed tar archive: manifest.json, the signatures signatures/1.sig, signatures/2.sig, …, and
// then the parts that the manifest lists, in its order. The manifest names each part with its size and SHA-256, so the
// signatures are over the bytes of the manifest alone. Every byte follows from the manifest, the signatures and the
// parts: equal content is an equal file, and Open refuses a file that Write would not have written. It therefore
// compares the header of each member with the expected one, and never interprets a header of the file.
//
// A signature is an SSH signature in the namespace "sluice-bundle", as `ssh-keygen -Y sign` makes it
// (https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig), or the base64 of a signature by a key of
// cosign, as `cosign sign-blob` prints it.
//
// The package knows no Git and no content of parts.
//
// The package is not API: it can change in every release.
package envelope
