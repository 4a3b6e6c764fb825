package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

var (
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	notAlnum  = regexp.MustCompile(`[^a-z0-9]+`)
)

// maxName is the most that a name may have where it is the value of a label too.
const maxName = 63

// validName is Kubernetes' rule for most names, DNS-1123.
func validName(name string) bool {
	return subdomain.MatchString(name)
}

// checkNames refuses what a user gave and no object can be called; "" is not given.
func checkNames(names ...string) error {
	for _, name := range names {
		if name != "" && (len(name) > maxName || !validName(name)) {
			return fmt.Errorf("%q is no name in Kubernetes: lower-case letters, digits, - and ., at most %d", name, maxName)
		}
	}
	return nil
}

// safeName is the name itself if it can name an object and be a label's value, else one like it, with a hash, so that two
// names never become one.
func safeName(name string, taken ...string) string {
	const hashed = 8
	bad := len(name) > maxName || !validName(name)
	for _, t := range taken {
		bad = bad || t == name
	}
	if !bad {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	safe := notAlnum.ReplaceAllString(strings.ToLower(name), "-")
	if room := maxName - hashed - 1; len(safe) > room {
		safe = safe[:room]
	}
	safe = strings.Trim(safe, "-")
	if safe != "" {
		safe += "-"
	}
	return safe + hex.EncodeToString(sum[:])[:hashed]
}
