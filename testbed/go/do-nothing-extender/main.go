// An extender that decides nothing, over plain HTTP: what any extender written in Go costs kube-scheduler at least.
//
// It takes names of nodes only, and does not even read the JSON: the list is found by its key and goes back as it came.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"sync/atomic"
)

const mostBytes = 16 << 20

var (
	key      = []byte(`"NodeNames":[`)
	answered atomic.Int64
)

// names returns what stands between the brackets of NodeNames; no name of a node has a bracket or needs an escape.
func names(body []byte) ([]byte, bool) {
	at := bytes.LastIndex(body, key)
	if at < 0 {
		return nil, false
	}
	rest := body[at+len(key):]
	end := bytes.IndexByte(rest, ']')
	if end < 0 {
		return nil, false
	}
	return rest[:end], true
}

// filter lets every node pass.
func filter(names []byte) []byte {
	return bytes.Join([][]byte{[]byte(`{"NodeNames":[`), names, []byte(`]}`)}, nil)
}

// prioritize gives every node the same score.
func prioritize(names []byte) []byte {
	if len(names) == 0 {
		return []byte(`[]`)
	}
	scored := bytes.ReplaceAll(names, []byte(`,`), []byte(`,"Score":0},{"Host":`))
	return bytes.Join([][]byte{[]byte(`[{"Host":`), scored, []byte(`,"Score":0}]`)}, nil)
}

func answering(decide func([]byte) []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > mostBytes {
			http.Error(w, "a body of known and bearable length is wanted", http.StatusRequestEntityTooLarge)
			return
		}
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked, found := names(body)
		if !found {
			http.Error(w, "no names of nodes; configure nodeCacheCapable: true", http.StatusBadRequest)
			return
		}
		answer := decide(asked)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		if _, err := w.Write(answer); err == nil {
			answered.Add(1)
		}
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9009", "address to listen on")
	flag.Parse()
	http.HandleFunc("POST /scheduler/filter", answering(filter))
	http.HandleFunc("POST /scheduler/prioritize", answering(prioritize))
	http.HandleFunc("GET /answered", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, answered.Load())
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}
