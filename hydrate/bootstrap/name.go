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

// maxName is the maximal length of a name that is also the value of a label.
const maxName = 63

// validName is Kubernetes' rule for most names, DNS-1123.
func validName(name string) bool {
	return subdomain.MatchString(name)
}

// checkNames refuses names from the user that Kubernetes would refuse. "" means that the user gave none.
func checkNames(names ...string) error {
	for _, name := range names {
		if name != "" && (len(name) > maxName || !validName(name)) {
			return fmt.Errorf("%q is not a valid Kubernetes name: use lower-case letters, digits, - and ., at most %d characters", name, maxName)
		}
	}
	return nil
}

// safeName returns the name itself if it is a valid object name and label value. Otherwise it returns a similar name
// with a hash, so that different names stay different.
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
