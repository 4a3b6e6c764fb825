package objects

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
)

// A Reader that reads far more than it keeps gives the same objects again, and says once what it cannot read.
func TestReaderKeepsLittle(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	const each = 1 << 20
	var files []File
	for i := range 2*cacheBytes/each + 1 {
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-%d}\ndata: {a: %s}\n", i,
			strings.Repeat("x", each))
		if i == 3 {
			text = "not Sluice's"
		}
		hash, err := w.Blob([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{fmt.Sprintf("configmap-c-%d.yaml", i), hash})
	}
	r := NewReader(store, diff.NewMasker(nil))
	for range 2 {
		list, err := r.Read(t.Context(), "eu-1", "shop", files)
		if err != nil || len(list) != len(files)-1 {
			t.Fatalf("%d objects: %v", len(list), err)
		}
		for _, o := range list {
			if name := o.Object.Object.Name(); o.File != "configmap-"+name+".yaml" {
				t.Errorf("%s is in %s", name, o.File)
			}
		}
		if n := len(r.blobs); n > cacheBytes/each || n == 0 {
			t.Errorf("%d objects are kept", n)
		}
	}
	if notes := r.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "eu-1/shop/configmap-c-3.yaml") {
		t.Errorf("the notes are %q", notes)
	}
	r = NewReader(store, diff.NewMasker(nil))
	r.LimitTo(3 * cacheBytes) // a Reader with a limit keeps all, because it counts what it reads
	for range 4 {
		if list, err := r.Read(t.Context(), "eu-1", "shop", files); err != nil || len(list) != len(files)-1 {
			t.Fatalf("with a limit: %d objects: %v", len(list), err)
		}
	}
}
