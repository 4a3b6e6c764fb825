package diff

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"sort"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/internal/secret"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Length in bytes from which a value of a Secret is masked outside of the Secret.
const (
	shortest = 6 // where a string equals the value
	inside   = 8 // where a string contains the value
)

// Masker hides secrets in objects: the values of Secrets, the same values and their encodings in other places, values
// of environment variables whose name says secret or that are random, private keys, and tokens of known forms. It
// replaces a value by a keyed fingerprint and the value's length, so that a change is visible and the value is not.
// Equal values have equal fingerprints, in a Secret and elsewhere. Without the key, nobody can test guesses against a
// fingerprint. Call Learn for every object before the first Mask. All methods are safe for concurrent use.
type Masker struct {
	key    []byte
	mu     sync.Mutex
	values map[string]string // value → replacement
	all    *masks            // nil after a change of values
}

// masks replaces the values that were known when it was made.
type masks struct {
	values   map[string]string
	replacer *strings.Replacer // for values inside of strings
}

// NewMasker returns a Masker. Equal keys give equal fingerprints; the key must be secret.
func NewMasker(key []byte) *Masker {
	return &Masker{key: key, values: map[string]string{}}
}

// Learn registers the values of a Secret, of the Secrets of a list, and of Secrets inside an object of another kind. It
// ignores everything else.
func (m *Masker) Learn(o manifest.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learnObject(o, isSecret(o))
}

func (m *Masker) learnBelow(v any) {
	switch x := v.(type) {
	case []any:
		for _, inner := range x {
			m.learnBelow(inner)
		}
	case map[string]any:
		m.learnObject(x, isSecret(x))
	}
}

// learnObject registers the values below an object, which is a Secret if hidden is true.
func (m *Masker) learnObject(o map[string]any, hidden bool) {
	for key, v := range o {
		switch field := fieldOf(key); {
		case hidden && field != "":
			m.all = nil
			m.learnValues(v, field == encodedField, o["sops"] != nil)
		case isSecretList(o) && strings.EqualFold(key, "items"): // which need no kind
			items, _ := v.([]any) // Mask hides anything else as a whole
			for _, item := range items {
				if inner, ok := item.(map[string]any); ok {
					m.learnObject(inner, true)
				}
			}
		default:
			m.learnBelow(v)
		}
	}
}

// learnValues registers the values below a field of a Secret.
func (m *Masker) learnValues(v any, encoded, sops bool) {
	switch x := v.(type) {
	case map[string]any:
		for _, inner := range x {
			m.learnValues(inner, encoded, sops)
		}
		return
	case []any:
		for _, inner := range x {
			m.learnValues(inner, encoded, sops)
		}
		return
	}
	text, ok := secret.Scalar(v)
	if !ok || sops && secret.Encrypted(text) {
		return
	}
	if plain, ok := decoded(text); encoded && ok {
		m.learn(text, plain)
		text = plain
	}
	m.learnPlain(text, mostLayers)
}

// mostLayers is the number of encodings in each other that are looked through.
const mostLayers = 4

// learnPlain registers a value, its encodings, and what it holds: the text that it encodes, the secrets of a document,
// of lines such as PASSWORD=value, and of an address.
func (m *Masker) learnPlain(text string, layers int) {
	m.learn(text, text)
	for _, encoding := range encodings() {
		m.learn(encoding.EncodeToString([]byte(text)), text)
	}
	if layers == 0 {
		return
	}
	if inner, ok := decoded(text); ok && len(inner) >= shortest && secret.Printable(inner) {
		m.learnPlain(inner, layers-1)
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		var document any
		if json.Unmarshal([]byte(text), &document) == nil {
			secret.Each("", document, func(found string) { m.learnPlain(found, layers-1) })
			return
		}
	}
	for _, line := range assignment.FindAllStringSubmatch(text, -1) {
		if value := strings.Trim(line[2], `"'`); secret.Variable(line[1], value) {
			m.learnPlain(value, layers-1)
		}
	}
	secret.ReplaceTokens(text, func(found string) string {
		if found != text {
			m.learnPlain(found, 0)
		}
		return found
	})
}

// assignment matches a line that sets a value, as those of .env, properties and YAML files do.
var assignment = regexp.MustCompile(`(?m)^\s*(?:export\s+)?([\w.-]+)\s*[=:]\s*(\S+)\s*$`)

func encodings() []*base64.Encoding {
	return []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding}
}

// decoded decodes base64 as the API server does, and its forms for addresses.
func decoded(text string) (string, bool) {
	text = strings.TrimSpace(text)
	for _, encoding := range encodings() {
		if plain, err := encoding.DecodeString(text); err == nil {
			return string(plain), true
		}
	}
	return "", false
}

// learn registers a form of a value. A text that is a value itself and the encoding of another has the fingerprint of
// itself, whatever is registered first.
func (m *Masker) learn(form, plain string) {
	mask := m.fingerprint(plain)
	for _, one := range []string{form, strings.TrimSpace(form)} {
		have, ok := m.values[one]
		if len(one) >= shortest && (!ok || form == plain || have != m.fingerprint(one) && mask < have) {
			m.values[one] = mask
		}
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
	return m.object(o, isSecret(o), m.masks())
}

// object masks an object, which is a Secret if hidden is true.
func (m *Masker) object(o map[string]any, hidden bool, all *masks) map[string]any {
	list, settings := isSecretList(o), isKind(o, "ConfigMap")
	out := make(map[string]any, len(o))
	for k, v := range o {
		switch field := fieldOf(k); {
		case k == "apiVersion" || k == "kind":
			out[k] = v
		case hidden && field != "":
			out[k] = m.maskData(v, field == encodedField, o["sops"] != nil)
		case list && strings.EqualFold(k, "items"):
			out[k] = m.items(v, all)
		case k == "metadata":
			out[k] = m.metadata(v, all, hidden)
		case settings && field != "":
			out[k] = m.settings(v, all)
		default:
			out[k] = m.value(v, all)
		}
	}
	return out
}

// items masks the items of a SecretList, which need no kind.
func (m *Masker) items(v any, all *masks) any {
	items, ok := v.([]any)
	if !ok {
		return m.fingerprint(fmt.Sprint(v))
	}
	out := make([]any, len(items))
	for i, item := range items {
		o, ok := item.(map[string]any)
		if !ok {
			out[i] = m.fingerprint(fmt.Sprint(item))
			continue
		}
		out[i] = m.object(o, true, all)
	}
	return out
}

// settings masks the data of a ConfigMap, which containers can get as environment variables.
func (m *Masker) settings(v any, all *masks) any {
	values, ok := v.(map[string]any)
	if !ok {
		return m.value(v, all)
	}
	out := make(map[string]any, len(values))
	for k, v := range values {
		if text, ok := secret.Scalar(v); ok && secret.Named(k) && !secret.Open(text) {
			out[m.text(k, all, mostLayers)] = m.known(text, all)
			continue
		}
		out[m.text(k, all, mostLayers)] = m.value(v, all)
	}
	return out
}

// Text masks secrets in a text, such as a tool's message.
func (m *Masker) Text(s string) string { return m.text(s, m.masks(), mostLayers) }

// Value returns a copy of a value of a chart without secrets: strings below names of secrets, and what Mask hides.
func (m *Masker) Value(field string, v any) any {
	all := m.masks()
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, inner := range x {
			out[k] = m.Value(k, inner)
		}
		return m.value(out, all)
	case []any:
		out := make([]any, len(x))
		for i, inner := range x {
			out[i] = m.Value(field, inner)
		}
		return m.value(out, all)
	}
	if text, ok := secret.Scalar(v); ok && secret.Variable(field, text) {
		return m.known(text, all)
	}
	return m.value(v, all)
}

func (m *Masker) masks() *masks {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = &masks{maps.Clone(m.values), m.replacer()}
	}
	return m.all
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

// known returns the fingerprint of a secret, as it is in the places where a Secret has the value.
func (m *Masker) known(text string, all *masks) string {
	if Masked(text) {
		return text
	}
	if mask, ok := all.values[text]; ok {
		return mask
	}
	return m.fingerprint(text)
}

// maskData hides a Secret's values. It keeps values that SOPS encrypted.
func (m *Masker) maskData(v any, encoded, sops bool) any {
	if v == nil {
		return nil
	}
	values, ok := v.(map[string]any)
	if !ok {
		return m.fingerprint(fmt.Sprint(v))
	}
	out := make(map[string]any, len(values))
	for k, v := range values {
		text, ok := secret.Scalar(v)
		if v == nil {
			out[k] = nil
			continue
		}
		if !ok {
			text = fmt.Sprint(v)
		}
		if sops && secret.Encrypted(text) {
			out[k] = text
			continue
		}
		if plain, ok := decoded(text); encoded && ok {
			text = plain
		}
		out[k] = m.fingerprint(text)
	}
	return out
}

// metadata keeps an object's names, and hides the copy of a Secret that kubectl writes into its annotations.
func (m *Masker) metadata(v any, all *masks, secret bool) any {
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

func (m *Masker) value(v any, all *masks) any {
	switch x := v.(type) {
	case string:
		return m.text(x, all, mostLayers)
	case map[string]any:
		if isSecret(x) || isSecretList(x) { // inside another object, such as a template
			return m.object(x, isSecret(x), all)
		}
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[m.text(k, all, mostLayers)] = m.value(v, all)
		}
		if name, ok := x["name"].(string); ok { // an environment variable, or a parameter
			if text, ok := secret.Scalar(x["value"]); ok && secret.Variable(name, text) {
				out["value"] = m.known(text, all)
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = m.value(v, all)
		}
		return out
	}
	if text, ok := secret.Scalar(v); ok { // a number
		if mask, ok := all.values[text]; ok {
			return mask
		}
	}
	return v
}

// text masks a text and, if it is base64, the text that it encodes.
func (m *Masker) text(s string, all *masks, layers int) string {
	if len(s) < shortest || Masked(s) {
		return s
	}
	if mask, ok := all.values[s]; ok {
		return mask
	}
	original := s
	if len(s) >= inside {
		s = all.replacer.Replace(s)
	}
	s = secret.ReplaceTokens(s, func(found string) string { return m.known(found, all) })
	if s != original || layers == 0 || !likeBase64(s) {
		return s
	}
	if plain, ok := decoded(s); ok && secret.Printable(plain) {
		switch masked := m.text(plain, all, layers-1); {
		case masked == plain:
		case Masked(masked):
			return masked
		default:
			return m.fingerprint(s)
		}
	}
	return s
}

// likeBase64 reports whether a text may encode a secret. It is cheaper than to decode it.
func likeBase64(s string) bool {
	const least = 12 // characters of an encoded value of 8 bytes
	if len(s) < least {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("+/-_=\n", c) < 0 {
			return false
		}
	}
	return true
}

const encodedField, plainField = "data", "stringData"

// fieldOf returns which field of a Secret a key is, in any case: a file can have what the API server refuses.
func fieldOf(key string) string {
	switch {
	case strings.EqualFold(key, encodedField):
		return encodedField
	case strings.EqualFold(key, plainField):
		return plainField
	}
	return ""
}

func isKind(o map[string]any, kind string) bool {
	have, _ := o["kind"].(string)
	version, _ := o["apiVersion"].(string)
	return strings.EqualFold(have, kind) && !strings.Contains(version, "/")
}

func isSecret(o map[string]any) bool     { return isKind(o, "Secret") }
func isSecretList(o map[string]any) bool { return isKind(o, "SecretList") }
