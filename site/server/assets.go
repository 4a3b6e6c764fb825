package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/site"
)

// asset is a file that all pages share.
type asset struct {
	plain, gzip []byte
	kind, tag   string // the tag is without quotes
}

// assets compresses each file once.
//
//nolint:gochecknoglobals // constant after the first call
var assets = sync.OnceValues(func() (map[string]asset, error) {
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
	out := map[string]asset{}
	for name, data := range site.Assets() {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(data)
		if closed := z.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sum := sha256.Sum256(data)
		out[name] = asset{data, packed.Bytes(), kinds[path.Ext(name)], hex.EncodeToString(sum[:8])}
	}
	return out, nil
})

// asset sends a file that all pages share, or that the client's copy is current. It reports whether there is such a
// file.
func (s *Server) asset(w http.ResponseWriter, r *http.Request, name string) bool {
	all, err := assets()
	if err != nil {
		s.config.Log.Error("a file of the pages cannot be compressed", "error", err)
		message(w, r, http.StatusInternalServerError, "the file cannot be sent: the log of the service says why")
		return true
	}
	one, ok := all[name]
	if !ok {
		return false
	}
	h := w.Header()
	data, tag := one.plain, one.tag
	if acceptsGzip(r) {
		data, tag = one.gzip, one.tag+"-gz"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+tag+`"`)
	h.Add("Vary", "Accept-Encoding")
	h.Set("Content-Type", one.kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	return true
}
