package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// oidPromises is the extension of a certificate with the promises of certificate transparency logs to include it: its SCTs (RFC 6962, section 3.3).
const oidPromises = "1.3.6.1.4.1.11129.2.4.2"

// logged requires that a trusted log of certificates promised to include the certificate, so that an authority cannot issue one that its owner does not
// see. A trusted root without such logs requires nothing. issuer issued the certificate, and is trusted: what is read here is the authority's.
func (r *trustedRoot) logged(cert, issuer *x509.Certificate) error {
	if !r.transparent {
		return nil
	}
	body, promises, err := withoutPromises(cert.RawTBSCertificate)
	if err != nil {
		return err
	}
	key := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	for _, p := range promises {
		message := p.message(key, body)
		for _, l := range r.certificates {
			if l.is(hex.EncodeToString(p.log), p.at()) && valid(l.key, message, p.signature) {
				return nil
			}
		}
	}
	return errors.New("no certificate transparency log of the trusted root promised to include its certificate: take the newest trusted_root.json of your Sigstore")
}

// promise is the promise of a log to include a certificate.
type promise struct {
	log        []byte // its id
	time       uint64 // milliseconds since 1970
	extensions []byte
	signature  []byte // over SHA-256
}

func (p promise) at() time.Time {
	const most = 1 << 50 // some ten thousands of years
	return time.UnixMilli(int64(min(p.time, most)))
}

// message returns what the log signed: the certificate before it had promises, and the hash of the issuer's key.
func (p promise) message(issuer [sha256.Size]byte, body []byte) []byte {
	const precertificate = 1
	out := binary.BigEndian.AppendUint64([]byte{0, 0}, p.time) // version 1, of a certificate
	out = binary.BigEndian.AppendUint16(out, precertificate)
	out = append(out, issuer[:]...)
	out = append(out, binary.BigEndian.AppendUint32(nil, uint32(len(body)))[1:]...) //nolint:gosec // withoutPromises bounds it to three bytes
	out = append(out, body...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(p.extensions))) //nolint:gosec // it was read from such a length
	return append(out, p.extensions...)
}

var errPromises = errors.New("the promises of certificate transparency logs in its certificate cannot be read")

// withoutPromises returns the signed part of a certificate without the extension of its promises, and the promises. Everything else stays as it is.
func withoutPromises(tbs []byte) (body []byte, promises []promise, err error) {
	const extensions = 3 // the tag
	found := false
	body, ok := within(tbs, func(v asn1.RawValue) ([]byte, bool) {
		if v.Class != asn1.ClassContextSpecific || v.Tag != extensions {
			return v.FullBytes, true
		}
		return within(v.FullBytes, func(list asn1.RawValue) ([]byte, bool) {
			return within(list.FullBytes, func(v asn1.RawValue) ([]byte, bool) {
				var id asn1.ObjectIdentifier
				value, err := asn1.Unmarshal(v.Bytes, &id)
				if err != nil || id.String() != oidPromises {
					return v.FullBytes, err == nil
				}
				var text []byte
				rest, err := asn1.Unmarshal(value, &text)
				if err != nil || len(rest) > 0 || found {
					return nil, false
				}
				var list []byte
				if rest, err = asn1.Unmarshal(text, &list); err != nil || len(rest) > 0 {
					return nil, false
				}
				found = true
				promises, err = readPromises(list)
				return nil, err == nil
			})
		})
	})
	const most = 1<<24 - 1 // the length has three bytes
	if !ok || len(body) > most || len(body) > len(tbs) || bytes.Equal(body, tbs) == found {
		return nil, nil, errPromises
	}
	return body, promises, nil
}

// within replaces each value within a DER value. It reports whether it could.
func within(data []byte, change func(asn1.RawValue) ([]byte, bool)) ([]byte, bool) {
	var outer asn1.RawValue
	if rest, err := asn1.Unmarshal(data, &outer); err != nil || len(rest) > 0 || !outer.IsCompound {
		return nil, false
	}
	var inner []byte
	for left := outer.Bytes; len(left) > 0; {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(left, &v)
		if err != nil {
			return nil, false
		}
		one, ok := change(v)
		if !ok {
			return nil, false
		}
		inner, left = append(inner, one...), rest
	}
	out, err := asn1.Marshal(asn1.RawValue{Class: outer.Class, Tag: outer.Tag, IsCompound: true, Bytes: inner})
	return out, err == nil
}

// readPromises reads a list of promises (RFC 6962, sections 3.2 and 3.3). It leaves out those of another version and with other algorithms.
func readPromises(data []byte) ([]promise, error) {
	list := &stream{data: data}
	each := &stream{data: list.vector()}
	if list.failed || len(list.data) > 0 {
		return nil, errPromises
	}
	var out []promise
	for len(each.data) > 0 && !each.failed {
		one := &stream{data: each.vector()}
		const version, sha, ecdsa, rsa, id = 0, 4, 3, 1, 32
		v := one.take(1)
		p := promise{log: one.take(id)}
		if at := one.take(8); len(at) > 0 {
			p.time = binary.BigEndian.Uint64(at)
		}
		p.extensions = one.vector()
		algorithm := one.take(2)
		p.signature = one.vector()
		if !one.failed && len(one.data) == 0 && v[0] == version && algorithm[0] == sha && (algorithm[1] == ecdsa || algorithm[1] == rsa) {
			out = append(out, p)
		}
	}
	if each.failed {
		return nil, errPromises
	}
	return out, nil
}

// stream reads the encoding of TLS. After a failure, everything is empty.
type stream struct {
	data   []byte
	failed bool
}

func (s *stream) take(n int) []byte {
	if s.failed || n > len(s.data) {
		s.failed = true
		return nil
	}
	out := s.data[:n]
	s.data = s.data[n:]
	return out
}

// vector reads bytes after their length of two bytes.
func (s *stream) vector() []byte {
	length := s.take(2)
	if s.failed {
		return nil
	}
	return s.take(int(binary.BigEndian.Uint16(length)))
}
