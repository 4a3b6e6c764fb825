package branch

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Decodes the files that an environment branch records. Whatever somebody pushed there gives an error or a value, and
// Sluice reads what it writes back as the same value.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("apiVersion: sluice.dev/v1alpha1\nkind: RenderedEnvironment\nenvironment: dev\nsource: 0123\nobjects: 3\napps: {web: abcd}\nclusters: {a: {source: ef, apps: {web: '1'}}}\n"))
	f.Add([]byte("Evil.example.com: Cluster\nOther.example.com: Namespaced\nCert.: x\n"))
	f.Add([]byte("apps: {web: 'sha256:00', 'x\ty': '~'}\nscopes: {web: [Evil.example.com, a], none: []}\n"))
	f.Add([]byte("apps:\n  team-a/web: sha256:" + strings.Repeat("0", 64) + "\n  web: sha256:" +
		strings.Repeat("a", 64) + "\nscopes:\n  web:\n  - Evil.example.com\n"))
	f.Add([]byte("apps: {}"))
	f.Add([]byte("a: &a [x, x]\nb: *a\n<<: {apps: {a: b}}\n"))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Record
		if decode(data, &r) == nil {
			r.APIVersion, r.Kind = "", ""
			var back Record
			again(t, r.Encode, &back)
			back.APIVersion, back.Kind = "", ""
			if fmt.Sprint(back.Runs()) != fmt.Sprint(r.Runs()) || back.Environment != r.Environment ||
				back.Renderer != r.Renderer || back.Objects != r.Objects {
				t.Fatalf("%q: %+v becomes %+v", data, r, back)
			}
		}
		sameInputs(t, data)
		if in := readInputs(data); len(in.Apps)+len(in.Scopes) > 0 {
			var back Inputs
			again(t, in.Encode, &back)
			for app, digest := range in.Apps {
				if back.Apps[app] != digest {
					t.Fatalf("%q: the digest of %q becomes %q", data, app, back.Apps[app])
				}
			}
			for app, kinds := range in.Scopes {
				if len(kinds) > 0 && !reflect.DeepEqual(back.Scopes[app], kinds) {
					t.Fatalf("%q: the kinds of %q become %q", data, app, back.Scopes[app])
				}
			}
		}
		var text map[string]string
		if decode(data, &text) != nil {
			return
		}
		kinds := kindsOf(text)
		text = nil
		again(t, kinds.Encode, &text)
		if back := kindsOf(text); len(kinds) > 0 && !reflect.DeepEqual(back, kinds) {
			t.Fatalf("%q: %v becomes %v", data, kinds, back)
		}
	})
}

// again decodes what encode writes.
func again(t *testing.T, encode func() ([]byte, error), into any) {
	t.Helper()
	data, err := encode()
	if err == nil {
		err = decode(data, into)
	}
	if err != nil {
		t.Fatalf("%q: the error is %v", data, err)
	}
}

// Who can push to an environment branch can write files that take much memory to decode.
func TestRecordedFilesAreBounded(t *testing.T) {
	t.Parallel()
	for what, data := range map[string]string{
		"bytes":   strings.Repeat("# x\n", maxBytes/4+1),
		"aliases": "a: &a [x]\nb: *a\n",
		"levels":  strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	} {
		var into any
		if err := decode([]byte(data), &into); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: the error is %v", what, err)
		}
		if in := readInputs([]byte(data)); len(in.Apps) != 0 || in.Apps == nil || in.Scopes == nil {
			t.Errorf("%s: the in is %+v", what, in)
		}
	}
	kinds := Kinds{{Group: "a&b*.example.com", Kind: "X"}: manifest.ScopeCluster}
	var back map[string]string
	again(t, kinds.Encode, &back)
	if !reflect.DeepEqual(kindsOf(back), kinds) {
		t.Errorf("the back is %v", back)
	}
}
