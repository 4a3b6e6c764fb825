// Package secret knows what secrets look like: names of fields, random values, tokens of known forms, and values that
// SOPS encrypted. It masks nothing by itself. The package is pure.
package secret

import (
	"encoding/base64"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

var name = regexp.MustCompile(`(?i)(passw(or)?d|passphrase|secret|token|credentials?|connection[-_.]?string|` +
	`(api|access|account|auth|client|encryption|hmac|jwt|license|master|private|secret|session|shared|signing)[-_.]?key|` +
	`(^|[-_.])(pass|pwd|pin|dsn|salt))$`)

// object matches names of fields that hold the name of a Secret, such as existingSecret of many charts.
var object = regexp.MustCompile(`(?i)(existing|tls|pull|cert(ificate)?|ca|ingress)[-_.]?secrets?$`)

// Named reports whether the name of a field or of an environment variable says that its value is a secret.
func Named(field string) bool { return name.MatchString(field) && !object.MatchString(field) }

// Open reports whether a value is none although the name of its field says so: a switch, a path, an address, or a
// reference such as $(TOKEN).
func Open(value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "on", "off", "null", "none", "enabled", "disabled":
		return true
	}
	if strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") {
		return !Random(value) && len(value) < 1<<10
	}
	return reference.MatchString(value) || address.MatchString(value)
}

var (
	reference = regexp.MustCompile(`^(\$\([\w.-]+\)|\$\{[\w.-]+\}|\$\w+)$`)
	address   = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^\s@?]+$`) // without user and query
	uuid      = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	checksum  = regexp.MustCompile(`(?i)(sha|sha1|sha256|sha512|md5|commit|rev|revision|digest|checksum|hash|etag)([-_.]?id)?$`)
)

// Variable reports whether the value of an environment variable, or of a similar pair, is a secret by its name or
// because it is random.
func Variable(field, value string) bool {
	if Named(field) {
		return !Open(value)
	}
	return !checksum.MatchString(field) && Random(value)
}

// Lengths of random values. A shorter one cannot be told from a name.
const (
	leastRandom = 20
	mostRandom  = 4 << 10
)

// Random reports whether a value looks as if it was generated: a long word of digits and letters of both cases, or of
// hexadecimal digits, that changes between them too often to be a name. UUIDs are names.
func Random(value string) bool {
	value = strings.TrimSpace(value)
	if len(value) < leastRandom || len(value) > mostRandom || uuid.MatchString(value) {
		return false
	}
	const lower, upper, digit, other = 0, 1, 2, 3
	var count [4]int
	var seen [128]int
	hex, changes, before := true, 0, -1
	for i := range len(value) {
		c, class := value[i], other
		switch {
		case c >= 'a' && c <= 'z':
			class = lower
		case c >= 'A' && c <= 'Z':
			class = upper
		case c >= '0' && c <= '9':
			class = digit
		case strings.IndexByte("+/=_-~", c) < 0:
			return false
		}
		hex = hex && (class == digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F')
		count[class]++
		seen[c]++
		// a word begins with one upper letter
		if class != before && before >= 0 && (before != upper || class != lower) {
			changes++
		}
		before = class
	}
	length := float64(len(value))
	rate := float64(changes) / length
	switch {
	case hex && count[digit] > 0 && count[lower]+count[upper] > 0:
		return len(value) >= 32 && rate > 0.25 && entropy(seen[:], length) > 2.8
	case count[lower] > 0 && count[upper] > 0 && count[digit] > 0:
		return count[digit] > 1 && rate > 0.28 && entropy(seen[:], length) > 3.5
	case count[digit] > 2 && count[other] == 0: // digits and letters of one case
		return len(value) >= 24 && rate > 0.25 && entropy(seen[:], length) > 3.5
	}
	return false
}

// entropy returns the bits for each character of a text with the given counts of characters.
func entropy(seen []int, length float64) float64 {
	bits := 0.0
	for _, n := range seen {
		if n > 0 {
			p := float64(n) / length
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// tokens matches private keys, tokens of well-known services, and passwords in URLs. It is large, so it is compiled on first
// use.
var tokens = sync.OnceValue(func() *regexp.Regexp { //nolint:gochecknoglobals // compiled once
	return regexp.MustCompile(strings.Join([]string{
		`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|\z)`,
		`\b(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}`, `\bgithub_pat_[A-Za-z0-9_]{30,}`,
		`\bgl(pat|dt|rt|ptt|cbt|soat|ft|imt|agent|oas)-[A-Za-z0-9_\-.]{18,}`,
		`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`, `\b(AKIA|ASIA)[A-Z0-9]{16}\b`, `\bAIza[A-Za-z0-9_\-]{35}`,
		`\b[rs]k_(live|test)_[A-Za-z0-9]{16,}`, `\bnpm_[A-Za-z0-9]{36}`, `\bdop_v1_[a-f0-9]{64}`,
		`\bhv[sb]\.[A-Za-z0-9_\-]{20,}`,
		`\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{16,}`,
		`\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}`,
		`\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`, `(://[^/\s:@]{0,100}):[^/\s:@]{1,200}@`,
	}, "|"))
})

// ReplaceTokens replaces private keys, tokens of well-known services, and passwords in URLs. Of a URL, replace gets the
// password only.
func ReplaceTokens(text string, replace func(found string) string) string {
	if !hinted(text) {
		return text
	}
	return tokens().ReplaceAllStringFunc(text, func(found string) string {
		if inner, ok := strings.CutPrefix(found, "://"); ok {
			user, password, _ := strings.Cut(strings.TrimSuffix(inner, "@"), ":")
			return "://" + user + ":" + replace(password) + "@"
		}
		return replace(found)
	})
}

// hinted reports whether a text can match tokens. It looks for their fixed parts, which is faster.
func hinted(s string) bool {
	for _, hint := range []string{
		"PRIVATE KEY", "gh", "gl", "xox", "AKIA", "ASIA", "AIza", "k_live_", "k_test_", "npm_", "dop_v1_", "hvs.",
		"hvb.", "eyJ", "SG.", "AGE-SECRET-KEY-1", "@",
	} {
		if strings.Contains(s, hint) {
			return true
		}
	}
	return false
}

var sops = regexp.MustCompile(`^ENC\[AES256_GCM,data:([^,]*),iv:([^,]+),tag:([^,]+),type:(str|int|float|bool|bytes|time|comment)\]$`)

// Encrypted reports whether SOPS encrypted a value. A value that only looks like it, and whose parts do not decode or
// hold plain text, is not encrypted.
func Encrypted(value string) bool {
	parts := sops.FindStringSubmatch(value)
	if parts == nil {
		return false
	}
	data, err1 := base64.StdEncoding.DecodeString(parts[1])
	nonce, err2 := base64.StdEncoding.DecodeString(parts[2])
	tag, err3 := base64.StdEncoding.DecodeString(parts[3])
	const tagSize, leastNonce = 16, 12 // of AES-GCM
	return err1 == nil && err2 == nil && err3 == nil && len(tag) == tagSize && len(nonce) >= leastNonce &&
		!plain(data) && !plain(nonce) && !plain(tag)
}

// plain reports whether bytes are text. Short ones can be so by accident; for 16 random bytes, the chance is 1 : 10^7.
func plain(data []byte) bool { return len(data) >= 16 && Printable(string(data)) }

// Printable reports whether a text has only printable ASCII characters, spaces and line breaks.
func Printable(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

// Each calls found for the values below v, decoded YAML, that are secrets by their names or because they are random.
// field is the name of v.
func Each(field string, v any, found func(value string)) {
	switch x := v.(type) {
	case map[string]any:
		for key, inner := range x {
			Each(key, inner, found)
		}
		if field, ok := x["name"].(string); ok {
			if text, ok := Scalar(x["value"]); ok && Variable(field, text) {
				found(text)
			}
		}
	case []any:
		for _, inner := range x {
			Each(field, inner, found)
		}
	default:
		if text, ok := Scalar(v); ok && Variable(field, text) {
			found(text)
		}
	}
}

// Scalar returns the text of a string or of a number.
func Scalar(v any) (string, bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case int:
		return strconv.Itoa(x), true
	case int64:
		return strconv.FormatInt(x, 10), true
	case uint64:
		return strconv.FormatUint(x, 10), true
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), true
	}
	return "", false
}
