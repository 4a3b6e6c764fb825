package signature

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
)

// trustedRoot is the part of Sigstore's trusted_root.json that is used.
type trustedRoot struct {
	logs        []trustedLog
	authorities []authority // that issue signers' certificates
	stampers    []authority // that sign timestamps
	// certificates are the logs of certificates. transparent means that the file has some, although their keys may not be supported.
	certificates []trustedLog
	transparent  bool
}

type trustedLog struct {
	key   crypto.PublicKey
	ids   []string // in hex: SHA-256 of the key, and the id that the trusted root gives
	host  string   // that the log names as the origin of its checkpoints, since the second generation
	valid validity
}

type authority struct {
	leaf         *x509.Certificate // that signs timestamps; nil: the timestamps bring it
	root         *x509.Certificate
	intermediate []*x509.Certificate
	valid        validity
}

// validity is a span of time; a nil end is open.
type validity struct {
	Start time.Time  `json:"start"`
	End   *time.Time `json:"end"`
}

func (v validity) has(t time.Time) bool {
	return !t.Before(v.Start) && (v.End == nil || !t.After(*v.End))
}

// logFile and authorityFile are entries of trusted_root.json.
type logFile struct {
	URL       string `json:"baseUrl"`
	PublicKey struct {
		RawBytes []byte   `json:"rawBytes"`
		ValidFor validity `json:"validFor"`
	} `json:"publicKey"`
	Log struct {
		ID []byte `json:"keyId"`
	} `json:"logId"`
}

type authorityFile struct {
	Chain struct {
		Certificates []struct {
			RawBytes []byte `json:"rawBytes"`
		} `json:"certificates"`
	} `json:"certChain"`
	ValidFor validity `json:"validFor"`
}

func readTrustedRoot(data []byte) (*trustedRoot, error) {
	var file struct {
		MediaType   string          `json:"mediaType"`
		Logs        []logFile       `json:"tlogs"`
		Certificate []logFile       `json:"ctlogs"`
		Authorities []authorityFile `json:"certificateAuthorities"`
		Stampers    []authorityFile `json:"timestampAuthorities"`
	}
	if err := json.Unmarshal(data, &file); err != nil || !strings.HasPrefix(file.MediaType, "application/vnd.dev.sigstore.trustedroot") {
		return nil, errors.New("the trusted root is not Sigstore's trusted_root.json: take the one of `cosign trusted-root create` or of Sigstore's TUF repository")
	}
	out := &trustedRoot{logs: readLogs(file.Logs), certificates: readLogs(file.Certificate), transparent: len(file.Certificate) > 0}
	for _, list := range []struct {
		from []authorityFile
		to   *[]authority
	}{{file.Authorities, &out.authorities}, {file.Stampers, &out.stampers}} {
		for _, a := range list.from {
			one, err := a.read()
			if err != nil {
				return nil, err
			}
			if one.root != nil {
				*list.to = append(*list.to, one)
			}
		}
	}
	if len(out.logs) == 0 || len(out.authorities) == 0 {
		return nil, errors.New("the trusted root has no transparency log or no certificate authority")
	}
	return out, nil
}

// readLogs returns the logs whose kind of key is supported.
func readLogs(files []logFile) []trustedLog {
	var out []trustedLog
	for _, l := range files {
		if log, ok := l.read(); ok {
			out = append(out, log)
		}
	}
	return out
}

// read returns the log. A log with a kind of key that is not supported vouches for nothing here, and is left out.
func (l logFile) read() (trustedLog, bool) {
	key, err := x509.ParsePKIXPublicKey(l.PublicKey.RawBytes)
	if err != nil {
		return trustedLog{}, false
	}
	sum := sha256.Sum256(l.PublicKey.RawBytes)
	log := trustedLog{key: key, ids: []string{hex.EncodeToString(sum[:])}, valid: l.PublicKey.ValidFor}
	if len(l.Log.ID) > 0 {
		log.ids = append(log.ids, hex.EncodeToString(l.Log.ID))
	}
	if u, err := url.Parse(l.URL); err == nil {
		log.host = u.Hostname()
	}
	return log, true
}

// read returns the authority. Its chain ends with the root, and begins with the certificate that signs, where that is known.
func (a authorityFile) read() (authority, error) {
	one := authority{valid: a.ValidFor}
	for i, c := range a.Chain.Certificates {
		cert, err := x509.ParseCertificate(c.RawBytes)
		switch {
		case err != nil:
			return one, errors.New("the trusted root has a certificate that cannot be read")
		case i == len(a.Chain.Certificates)-1:
			one.root = cert
		case i == 0 && !cert.IsCA:
			one.leaf = cert
		default:
			one.intermediate = append(one.intermediate, cert)
		}
	}
	return one, nil
}

// accepts returns how a certificate for a usage is verified: the authority issued it, and all of its chain was valid at a time. with has
// certificates that may stand between, which came with the signature.
func (a authority) accepts(with *x509.CertPool, usage x509.ExtKeyUsage, at time.Time) x509.VerifyOptions {
	roots, between := x509.NewCertPool(), with.Clone()
	roots.AddCert(a.root)
	for _, c := range a.intermediate {
		between.AddCert(c)
	}
	return x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}}
}

// promised reports whether a trusted log with the id, valid at a time, signed a message.
func (r *trustedRoot) promised(id string, at time.Time, message, signature []byte) bool {
	return slices.ContainsFunc(r.logs, func(l trustedLog) bool { return l.is(id, at) && valid(l.key, message, signature) })
}

func (l trustedLog) is(id string, at time.Time) bool {
	return slices.Contains(l.ids, id) && l.valid.has(at)
}
