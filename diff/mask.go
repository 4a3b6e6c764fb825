package diff

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Length in bytes from which a value of a Secret is masked outside of the Secret.
const (
	shortest = 6 // where a string equals the value
	inside   = 8 // where a string contains the value
)

// Masker hides secrets in objects: the values of Secrets, the same values in other places, private keys, and tokens
// of known forms. It replaces a value by a keyed fingerprint and the value's length, so that a change is visible and
// the value is not. Without the key, nobody can test guesses against a fingerprint. Call Learn for every object
// before the first Mask. All methods are safe for concurrent use.
type Masker struct {
	key    []byte
	mu     sync.Mutex
	values map[string]string // value → replacement
	all    *strings.Replacer
}

// NewMasker returns a Masker. Equal keys give equal fingerprints; the key must be secret.
func NewMasker(key []byte) *Masker {
	return &Masker{key: key, values: map[string]string{}}
}

// tokenShapes matches private keys, tokens of well-known services, and passwords in URLs.
var tokenShapes = regexp.MustCompile(strings.Join([]string{
	`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|\z)`,
	`\b(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}`, `\bgithub_pat_[A-Za-z0-9_]{30,}`,
	`\bgl(pat|dt|rt|ptt|cbt|soat|ft|imt|agent|oas)-[A-Za-z0-9_\-.]{18,}`,
	`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`, `\b(AKIA|ASIA)[A-Z0-9]{16}\b`, `\bAIza[A-Za-z0-9_\-]{35}`,
	`\b[rs]k_(live|test)_[A-Za-z0-9]{16,}`, `\bnpm_[A-Za-z0-9]{36}`, `\bdop_v1_[a-f0-9]{64}`,
	`\bhv[sb]\.[A-Za-z0-9_\-]{20,}`,
	`\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{16,}`,
	`\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}`,
	`\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`, `(://[^/\s:@]{1,100}):[^/\s:@]{1,200}@`,
}, "|"))

// Learn registers the values of a Secret; it ignores other objects.
func (m *Masker) Learn(o manifest.Object) {
	if !isSecret(o) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = nil
	each := func(field string, encoded bool) {
		values, _ := o[field].(map[string]any)
		for _, v := range values {
			text, ok := v.(string)
			if !ok || o["sops"] != nil && strings.HasPrefix(text, "ENC[") {
				continue
			}
			if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); encoded && err == nil {
				m.learn(string(plain), string(plain))
				m.learn(text, string(plain))
				continue
			}
			m.learn(text, text)
			m.learn(base64.StdEncoding.EncodeToString([]byte(text)), text)
		}
	}
	each("data", true)
	each("stringData", false)
}

func (m *Masker) learn(form, plain string) {
	if trimmed := strings.TrimSpace(form); len(trimmed) >= shortest {
		m.values[trimmed] = m.fingerprint(plain)
	}
	if len(form) >= shortest {
		m.values[form] = m.fingerprint(plain)
	}
}

func (m *Masker) fingerprint(value string) string {
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte(value))
	return fmt.Sprintf("‹masked %s %d bytes›", hex.EncodeToString(h.Sum(nil)[:4]), len(value))
}

// Masked reports whether a text is the fingerprint of a hidden value.
func Masked(text string) bool {
	return strings.HasPrefix(text, "‹masked ") && strings.HasSuffix(text, "›")
}

// Mask returns a copy of the object without secrets. It keeps names and kinds.
func (m *Masker) Mask(o manifest.Object) manifest.Object {
	m.mu.Lock()
	if m.all == nil {
		m.all = m.replacer()
	}
	all := m.all
	m.mu.Unlock()
	secret := isSecret(o)
	out := make(manifest.Object, len(o))
	for k, v := range o {
		switch {
		case k == "apiVersion" || k == "kind":
			out[k] = v
		case secret && (k == "data" || k == "stringData"):
			out[k] = m.maskData(v, k == "data", o["sops"] != nil)
		case k == "metadata":
			out[k] = m.metadata(v, all, secret)
		default:
			out[k] = m.value(v, all)
		}
	}
	return out
}

// Text masks secrets in a text, such as a tool's message.
func (m *Masker) Text(s string) string {
	m.mu.Lock()
	if m.all == nil {
		m.all = m.replacer()
	}
	all := m.all
	m.mu.Unlock()
	return m.text(s, all)
}

func (m *Masker) replacer() *strings.Replacer {
	values := make([]string, 0, len(m.values))
	for v := range m.values {
		if len(v) >= inside {
			values = append(values, v)
		}
	}
	sort.Slice(values, func(i, j int) bool { // longest first, because a value may contain another one
		if len(values[i]) != len(values[j]) {
			return len(values[i]) > len(values[j])
		}
		return values[i] < values[j]
	})
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, m.values[v])
	}
	return strings.NewReplacer(pairs...)
}

// maskData hides a Secret's values. It keeps values that SOPS encrypted.
func (m *Masker) maskData(v any, encoded, sops bool) any {
	values, ok := v.(map[string]any)
	if !ok {
		return m.fingerprint(fmt.Sprint(v))
	}
	out := make(map[string]any, len(values))
	for k, v := range values {
		text, isText := v.(string)
		if !isText {
			text = fmt.Sprint(v)
		}
		if sops && strings.HasPrefix(text, "ENC[") && strings.HasSuffix(text, "]") {
			out[k] = text
			continue
		}
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); encoded && err == nil {
			text = string(plain)
		}
		out[k] = m.fingerprint(text)
	}
	return out
}

// metadata keeps an object's names, and hides the copy of a Secret that kubectl writes into its annotations.
func (m *Masker) metadata(v any, all *strings.Replacer, secret bool) any {
	in, ok := v.(map[string]any)
	if !ok {
		return m.value(v, all)
	}
	out := make(map[string]any, len(in))
	for k, v := range in {
		if k == "name" || k == "namespace" || k == "generateName" {
			out[k] = v
			continue
		}
		out[k] = m.value(v, all)
	}
	if annotations, ok := out["annotations"].(map[string]any); ok && secret {
		const applied = "kubectl.kubernetes.io/last-applied-configuration"
		if text, ok := annotations[applied].(string); ok {
			annotations[applied] = m.fingerprint(text)
		}
	}
	return out
}

func (m *Masker) value(v any, all *strings.Replacer) any {
	switch x := v.(type) {
	case string:
		return m.text(x, all)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[m.text(k, all)] = m.value(v, all)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = m.value(v, all)
		}
		return out
	}
	return v
}

func (m *Masker) text(s string, all *strings.Replacer) string {
	if len(s) < shortest {
		return s
	}
	if mask, ok := m.values[s]; ok {
		return mask
	}
	if len(s) >= inside {
		s = all.Replace(s)
	}
	if !hinted(s) {
		return s
	}
	return tokenShapes.ReplaceAllStringFunc(s, func(found string) string {
		if start := strings.Index(found, "://"); start == 0 { // a password in a URL
			user, password, _ := strings.Cut(strings.TrimSuffix(found[3:], "@"), ":")
			if Masked(password) {
				return found
			}
			return "://" + user + ":" + m.fingerprint(password) + "@"
		}
		return m.fingerprint(found)
	})
}

// hinted reports whether a text can match tokenShapes. It looks for their fixed parts, which is faster.
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

func isSecret(o manifest.Object) bool { return o.Kind() == "Secret" && o.APIVersion() == "v1" }
