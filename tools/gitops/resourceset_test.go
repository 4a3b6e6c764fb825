package gitops

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// operator is the command line of the Flux Operator. It is a program under the AGPL, so it is neither linked nor built
// here.
var operator = flag.String("flux-operator", "", "the `program` flux-operator: compare its output with the recorded one")

const operatorGolden = "testdata/import/resourceset.golden.txt"

// Compares ResourceSets, one for each field and construct, with what `flux-operator build resourceset` prints. Its
// output is recorded in the golden file; with -flux-operator, the test runs the program and fails if the record is not
// what it prints. With -record too, it writes the record.
func TestResourceSetsEqualFluxOperator(t *testing.T) {
	fixtures := sections(t, "testdata/import/resourceset.txt")
	golden := sections(t, operatorGolden)
	if *operator != "" {
		fresh := map[string]string{}
		for name, text := range fixtures {
			fresh[name] = operatorBuild(t, text)
		}
		if *record {
			var out strings.Builder
			for _, name := range slices.Sorted(maps.Keys(fresh)) {
				out.WriteString("== " + name + "\n" + fresh[name])
			}
			if err := os.WriteFile(operatorGolden, []byte(out.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if !maps.Equal(fresh, golden) {
			t.Error("the program prints something else than the record")
		}
		golden = fresh
	}
	if !slices.Equal(slices.Sorted(maps.Keys(fixtures)), slices.Sorted(maps.Keys(golden))) {
		t.Fatal("the record is not of these fixtures")
	}
	base := sections(t, "testdata/import/flux.txt")["base"]
	all := 0
	for name, text := range fixtures {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, dir, base+text)
			want := map[string]string{}
			for doc := range strings.SplitSeq(golden[name], "---\n") {
				if !strings.Contains(doc, "kind:") {
					continue // what is before the first object, such as the name of its step
				}
				id, content := identity(t, withoutOwner(t, doc))
				want[id] = content
			}
			equal := equalObjects(t, "apps.set.rset", "default", want, rendered(t, dir, "prod")["apps.set.rset"])
			if equal == 0 {
				t.Error("nothing was compared")
			}
			all += equal
		})
	}
	t.Logf("%d fixtures, %d objects compared", len(fixtures), all)
	if len(fixtures) < 15 {
		t.Errorf("%d fixtures", len(fixtures))
	}
}

var record = flag.Bool("record", false, "with -flux-operator: write the golden file")

// operatorBuild runs the program on the files of a fixture.
func operatorBuild(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	unpack(t, dir, text)
	args := []string{"build", "resourceset", "-f", filepath.Join(dir, "clusters/prod/set.yaml")}
	if providers := filepath.Join(dir, "clusters/prod/providers.yaml"); strings.Contains(text, "providers.yaml --") {
		args = append(args, "--inputs-from-provider", providers)
	}
	out, err := exec.CommandContext(t.Context(), *operator, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// withoutOwner removes the labels of the ResourceSet, which Sluice does not add.
func withoutOwner(t *testing.T, doc string) []byte {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := utilyaml.Unmarshal([]byte(doc), &u.Object); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	labels := u.GetLabels()
	maps.DeleteFunc(labels, func(name, _ string) bool {
		return strings.HasPrefix(name,
			"resourceset.fluxcd.controlplane.io/")
	})
	if len(labels) == 0 {
		labels = nil
	}
	u.SetLabels(labels)
	out, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
