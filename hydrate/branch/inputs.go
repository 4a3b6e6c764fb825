package branch

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Inputs is the content of .sluice/inputs/<cluster>.yaml.
type Inputs struct {
	Apps map[string]string `yaml:"apps"` // app → input digest
	// Scopes maps an app to the custom kinds of those objects that the renderer left without a namespace. If the
	// scope of such a kind changes, the app's files change.
	Scopes map[string][]string `yaml:"scopes,omitempty"`
}

// NewInputs returns empty inputs.
func NewInputs() Inputs { return Inputs{Apps: map[string]string{}, Scopes: map[string][]string{}} }

// Encode returns the inputs as canonical YAML.
func (in Inputs) Encode() ([]byte, error) {
	scopes := map[string]any{}
	for app, list := range in.Scopes {
		if len(list) > 0 {
			scopes[app] = anyList(list)
		}
	}
	data, ok := in.appendLines()
	if !ok {
		apps := map[string]any{}
		for app, digest := range in.Apps {
			apps[app] = digest
		}
		var err error
		if data, err = manifest.Append(nil, map[string]any{appsKey: apps}); err != nil {
			return nil, err
		}
	}
	if len(scopes) == 0 {
		return data, nil
	}
	return manifest.Append(data, map[string]any{scopesKey: scopes})
}

func anyList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// ReadInputs reads the inputs of a cluster from a blob. The zero hash gives empty inputs.
func ReadInputs(ctx context.Context, store *gitstore.Store, blob gitstore.Hash) (Inputs, error) {
	if blob.IsZero() {
		return NewInputs(), nil
	}
	data, err := store.Blob(ctx, blob)
	if err != nil {
		return NewInputs(), err
	}
	return readInputs(data), nil
}

// readInputs decodes inputs. Damaged ones are empty: without digests, every target is rendered.
func readInputs(data []byte) Inputs {
	if in, ok := readLines(string(data)); ok {
		return in
	}
	return decodeInputs(data)
}

// decodeInputs decodes inputs as any YAML.
func decodeInputs(data []byte) Inputs {
	in := NewInputs()
	if decode(data, &in) != nil {
		return NewInputs()
	}
	if in.Apps == nil {
		in.Apps = map[string]string{}
	}
	if in.Scopes == nil {
		in.Scopes = map[string][]string{}
	}
	return in
}

// A cluster of a large fleet has thousands of apps, and each hydration reads and writes the inputs of every cluster
// that it changes. Almost all of their lines have one form, which is read and written here without a YAML parser.
const (
	appsKey    = "apps"
	scopesKey  = "scopes"
	appsLine   = appsKey + ":\n"
	scopesLine = scopesKey + ":\n"
	digestName = "sha256:"
	digestSize = len(digestName) + 64
)

// readLines decodes inputs as Encode writes them. It returns false for any other text.
func readLines(text string) (Inputs, bool) {
	rest, ok := strings.CutPrefix(text, appsLine)
	if !ok || len(text) > maxBytes {
		return Inputs{}, false
	}
	in := Inputs{Apps: make(map[string]string, strings.Count(rest, "\n")), Scopes: map[string][]string{}}
	last := ""
	for rest != "" && !strings.HasPrefix(rest, scopesLine) {
		var line string
		if line, rest, ok = strings.Cut(rest, "\n"); !ok {
			return Inputs{}, false
		}
		line, indented := strings.CutPrefix(line, "  ")
		app, digest, _ := strings.Cut(line, ": ")
		if !indented || app <= last || !plain(app) || !isDigest(digest) {
			return Inputs{}, false
		}
		in.Apps[app], last = digest, app
	}
	if len(in.Apps) == 0 || rest == "" {
		return in, len(in.Apps) > 0
	}
	more := Inputs{}
	if decode([]byte(rest), &more) != nil || more.Apps != nil || more.Scopes == nil {
		return Inputs{}, false
	}
	in.Scopes = more.Scopes
	return in, true
}

// appendLines returns the canonical YAML of the digests. It returns false if a line has another form than readLines
// reads.
func (in Inputs) appendLines() ([]byte, bool) {
	if len(in.Apps) == 0 {
		return nil, false
	}
	out := make([]byte, 0, len(appsLine)+len(in.Apps)*(digestSize+40))
	out = append(out, appsLine...)
	for _, app := range slices.Sorted(maps.Keys(in.Apps)) {
		digest := in.Apps[app]
		if !plain(app) || !isDigest(digest) {
			return nil, false
		}
		out = append(out, "  "...)
		out = append(out, app...)
		out = append(out, ": "...)
		out = append(out, digest...)
		out = append(out, '\n')
	}
	return out, true
}

// plain reports whether the canonical YAML of a key is the key itself, and its place that of the byte order. It may
// return false for others.
func plain(name string) bool {
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '/' {
			return false
		}
	}
	switch name {
	case "kind", "metadata", "name", "namespace": // the canonical form begins with them
		return false
	case "null", "nan", "inf", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}

func isDigest(text string) bool {
	if len(text) != digestSize || !strings.HasPrefix(text, digestName) {
		return false
	}
	const digits, letters uint64 = 0x3ff << '0', 0x3f << ('a' - 64) // a bit for each character below 64, and from 64 on
	all := uint64(1)
	for i := len(digestName); i < len(text); i++ { // without branches, which nobody can predict for random digits
		c := text[i]
		all &= digits>>c | letters>>(c-64)
	}
	return all == 1
}
