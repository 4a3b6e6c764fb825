package fleet

import (
	"bytes"
	"testing"
)

// Foreign bytes never panic, and a file without references does not change.
func FuzzComponent(f *testing.F) {
	for _, s := range []string{
		"a: ${cluster.name}\n", "patches:\n- patch: |-\n    - value: ${cluster.vars.uid}\n", "a: &x ${app}\nb: *x\n",
		"- '${cluster.vars.m}'\n",
		"a: |\n  ${app}\n  b\n", "[1, \"${cluster.vars.no:=1}\"]", "? ${app}\n: 1\n",
		"a: $${app}\n---\nb: ${environment}\n", "${$$$$${00000000",
	} {
		f.Add([]byte(s))
	}
	fleet := mustLoad(f, tiny(nil), NewCache())
	target := Target{App: fleet.Apps[0], Cluster: fleet.Clusters[0]}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"kustomization.yaml", "p.json"} {
			out, err := target.ComponentFile(name, data)
			if err != nil {
				continue
			}
			if !bytes.Contains(data, []byte("${")) && !bytes.Equal(out, data) {
				t.Fatalf("%q became %q", data, out)
			}
			if !bytes.Contains(data, []byte("${")) {
				continue
			}
			if _, err := (&replacer{target: Target{
				App:     &App{Name: "x"},
				Cluster: target.Cluster,
			}}).stream(bytes.ReplaceAll(out, []byte("${"), []byte("$${"))); err != nil {
				t.Fatalf("%q became %q, which cannot be read: %v", data, out, err)
			}
		}
	})
}
