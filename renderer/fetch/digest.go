package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const digestPrefix = "sha256:"

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// hexDigest takes the hex digits out of `sha256:…`. Only the one canonical spelling is accepted, because the digits
// become a file name.
func hexDigest(digest string) (string, bool) {
	digits, ok := strings.CutPrefix(digest, digestPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return "", false
	}
	for _, c := range []byte(digits) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return digits, true
}

// indexDigest reads the digest of an index entry: optional, in either case, with or without its prefix. What is not
// a SHA-256 counts as none.
func indexDigest(s string) string {
	s = digestPrefix + strings.ToLower(strings.TrimPrefix(s, digestPrefix))
	if _, ok := hexDigest(s); !ok {
		return ""
	}
	return s
}
