package memo_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/internal/memo"
)

func TestRows(t *testing.T) {
	t.Parallel()
	var list []byte
	for i := range 300 {
		list = memo.AppendRow(list, fmt.Sprintf("%03d", 2*i), fmt.Sprint("id ", i), bytes.Repeat([]byte("v"), i))
	}
	for _, step := range []int{1, 2, 3, 7, 299} {
		rows := memo.RowsOf(list)
		for n := 0; n < 602; n += step {
			v, ok := rows.Find(fmt.Sprintf("%03d", n), fmt.Sprint("id ", n/2))
			if want := n%2 == 0 && n < 600; ok != want || want && len(v) != n/2 {
				t.Errorf("step %d, row %d: %d bytes, %v", step, n, len(v), ok)
			}
		}
	}
	rows := memo.RowsOf(list)
	if _, ok := rows.Find("004", "id 3"); ok {
		t.Error("a row with another id is found")
	}
	if _, ok := rows.Find("004", "id 2"); !ok {
		t.Error("the same name is not found again")
	}
	if _, ok := rows.Find("002", "id 1"); ok {
		t.Error("a row before the last one is found")
	}
	for _, none := range []memo.Rows{{}, memo.RowsOf(nil)} {
		if _, ok := none.Find("", ""); ok {
			t.Error("a list without rows has one")
		}
	}
	for i := 0; i < len(list); i += 101 { // what was written last may be missing
		rows := memo.RowsOf(list[:i])
		for n := range 300 {
			if v, ok := rows.Find(fmt.Sprintf("%03d", 2*n), fmt.Sprint("id ", n)); ok && len(v) != n {
				t.Fatalf("the first %d bytes: row %d has %d bytes", i, n, len(v))
			}
		}
	}
}

// A large result, such as a list, is written although it is one, and takes the place of the one before.
func TestLargeResultsAreReplaced(t *testing.T) {
	t.Parallel()
	name, f := openSecond(t)
	key := memo.KeyOf("a list")
	for i := range 3 {
		f.Put(key, bytes.Repeat([]byte{byte(i)}, 100_000+i))
		if v, ok := f.Get(key); !ok || len(v) != 100_000+i {
			t.Fatalf("run %d: %d bytes, %v", i, len(v), ok)
		}
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
		f = memo.Open(name, "a build")
		if v, ok := f.Get(key); !ok || len(v) != 100_000+i || v[0] != byte(i) {
			t.Fatalf("after run %d: %d bytes, %v", i, len(v), ok)
		}
	}
	f.Put(key, []byte("small"))
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	if v, _ := memo.Open(name, "a build").Get(key); len(v) != 100_002 {
		t.Errorf("one small result caused a write: %d bytes", len(v))
	}
}

// A list counts as what it holds: a run that uses and replaces it keeps the smaller results of other verbs, however many they are.
func TestAListKeepsManySmallResults(t *testing.T) {
	t.Parallel()
	const small = 1000
	name, f := openSecond(t)
	list := memo.KeyOf("a list")
	f.Put(list, bytes.Repeat([]byte("l"), 1<<20))
	for i := range small {
		f.Put(memo.KeyOf(fmt.Sprint("small ", i)), []byte("of another verb"))
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	f = memo.Open(name, "a build")
	if _, ok := f.Get(list); !ok {
		t.Fatal("the list is lost")
	}
	f.Put(list, bytes.Repeat([]byte("m"), 1<<20))
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	f, left := memo.Open(name, "a build"), 0
	for i := range small {
		if _, ok := f.Get(memo.KeyOf(fmt.Sprint("small ", i))); ok {
			left++
		}
	}
	if left != small {
		t.Errorf("%d of %d small results are left", left, small)
	}
}
