package site

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxFile    = 80 // characters of a name that are kept
	hashDigits = 10
)

// fileName turns any name into one that is safe as a single path element on every file system, without the extension. A
// plain lower-case name stays as it is; others get a hash, so that two names never share a file.
func fileName(name string) string {
	plain := name != "" && len(name) <= maxFile && name[0] != '.' && name[0] != '-' && !strings.HasSuffix(name, ".") &&
		!strings.Contains(name, "..") && !reserved(name)
	safe := []byte(name)
	for i, c := range safe {
		if keep := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.'; !keep {
			plain, safe[i] = false, '-'
		}
	}
	if plain {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	short := strings.Trim(string(safe[:min(len(safe), maxFile)]), ".-")
	return "x-" + strings.ReplaceAll(short, "..", "--") + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}

// reserved reports names of devices on Windows, the names of pages of lists, and names that fileName makes itself.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul", "index":
		return true
	}
	device := len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && stem[3] >= '0' &&
		stem[3] <= '9'
	return device || strings.HasPrefix(name, "x-")
}
