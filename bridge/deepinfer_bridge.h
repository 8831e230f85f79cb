/* C ABI of the Rust static library deepinfer_bridge: tokenizers, chat templates and grammars. Written by hand;
 * src/ffi.rs and src/ffi_grammar.rs mirror it.
 *
 * Every function returns DI_OK or a status with a message in *error (UTF-8, to be freed with di_bytes_free). No
 * function unwinds or aborts on bad input: a panic inside comes back as DI_PANIC. Slices are borrowed for the call
 * only. A tokenizer or template handle may be used by several threads at once; it must not be freed while in use. */
#ifndef DEEPINFER_BRIDGE_H_
#define DEEPINFER_BRIDGE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  DI_OK = 0,
  DI_INVALID = 1,     /* bad file, text or template */
  DI_UNSUPPORTED = 2, /* well formed, but not handled here */
  DI_RAISED = 3,      /* the template called raise_exception; the message is its text alone */
  DI_PANIC = 4        /* our bug */
};

typedef struct {
  const char* data;
  size_t size;
} di_slice;

typedef struct {
  uint8_t* data;
  size_t size;
  size_t capacity;
} di_bytes;

typedef struct {
  uint32_t* data;
  size_t size;
  size_t capacity;
} di_ids;

typedef struct di_tokenizer di_tokenizer;
typedef struct di_template di_template;
typedef struct di_grammar_vocabulary di_grammar_vocabulary;
typedef struct di_grammar di_grammar;
typedef struct di_sequence di_sequence;

/* Per-token flags, in di_vocab.flags and from di_tokenizer_tokens. */
enum {
  DI_TOKEN_ADDED = 1,   /* split off before the model runs */
  DI_TOKEN_SPECIAL = 2, /* with ADDED: only when special tokens are parsed */
  DI_TOKEN_HIDDEN = 4   /* never produced from text: bytes, unused, control (SentencePiece only) */
};

enum { DI_VOCAB_BYTE_LEVEL = 0, DI_VOCAB_SENTENCEPIECE = 1 };

typedef struct {
  int32_t kind;
  const di_slice* tokens; /* index = id */
  const uint8_t* flags;
  size_t token_count;
  const float* scores;    /* SentencePiece: one per token */
  const di_slice* merges; /* byte level: "left right", best first */
  size_t merge_count;
  const di_slice* splits; /* byte level: regexes applied one after the other, matches isolated */
  size_t split_count;
  int32_t ignore_merges;    /* byte level: a whole piece found in the vocabulary is taken as it is */
  int32_t add_space_prefix; /* SentencePiece: a space before every piece of plain text */
  int32_t unknown_id;       /* SentencePiece: for what has no byte tokens; -1: dropped */
} di_vocab;

enum {
  DI_ENCODE_SPECIAL = 0, /* special tokens in the text become their ids */
  DI_ENCODE_PLAIN = 1,   /* special tokens in the text stay text */
  DI_ENCODE_GUARDED = 2  /* as SPECIAL, and guard characters (U+10FFFD) are taken out after the special tokens were
                            found:  a single one vanishes, a pair becomes one */
};

int32_t di_tokenizer_from_json(di_slice json, di_tokenizer** out, di_bytes* error);
int32_t di_tokenizer_from_vocab(const di_vocab* vocab, di_tokenizer** out, di_bytes* error);
void di_tokenizer_free(di_tokenizer* tokenizer);

/* JSON: {"kind":"byte_level"|"metaspace"|"plain","replacement":"▁","byte_fallback":bool,"strip_left":n,"prefix":[ids],
 * "suffix":[ids]}: how tokens turn into text, and what the file's post-processor puts around a text. */
int32_t di_tokenizer_info(const di_tokenizer* tokenizer, di_bytes* json, di_bytes* error);

/* All token texts joined; text i is [offsets[i], offsets[i+1]); flags has one byte per token. Ids without a token have
 * an empty text. */
int32_t di_tokenizer_tokens(const di_tokenizer* tokenizer, di_bytes* texts, di_ids* offsets, di_bytes* flags,
                            di_bytes* error);

/* No token is added around the text. */
int32_t di_tokenizer_encode(const di_tokenizer* tokenizer, di_slice text, int32_t mode, di_ids* ids, di_bytes* error);

/* Compiles; a syntax error names line and reason. */
int32_t di_template_new(di_slice source, di_template** out, di_bytes* error);
void di_template_free(di_template* tmpl);

/* context: a JSON object whose members are the template's variables. */
int32_t di_template_render(const di_template* tmpl, di_slice context, di_bytes* text, di_bytes* error);

/* Grammars: what may come next in a text, token by token (llguidance). */

/* tokens: the bytes of each id; special: nonzero for those that no text produces; end_ids (at least one) may follow a
 * complete text. Thread-safe once made. */
int32_t di_grammar_vocabulary_new(const di_slice* tokens, const uint8_t* special, size_t token_count,
                                  const uint32_t* end_ids, size_t end_count, di_grammar_vocabulary** out,
                                  di_bytes* error);
void di_grammar_vocabulary_free(di_grammar_vocabulary* vocabulary);

enum {
  DI_GRAMMAR_JSON_OBJECT = 0, /* no source */
  DI_GRAMMAR_JSON_SCHEMA = 1,
  DI_GRAMMAR_REGEX = 2,  /* all of the text matches */
  DI_GRAMMAR_CHOICE = 3, /* a JSON list of strings */
  DI_GRAMMAR_LARK = 4
};

/* JSON is compact: no whitespace between its parts. A schema's error names a JSON pointer and the keyword. Size and
 * work are bounded. Thread-safe once made. */
int32_t di_grammar_compile(const di_grammar_vocabulary* vocabulary, int32_t kind, di_slice source, di_grammar** out,
                           di_bytes* error);
void di_grammar_free(di_grammar* grammar);

/* One text, at its beginning. A sequence outlives its grammar; one thread at a time. */
int32_t di_grammar_begin(const di_grammar* grammar, di_sequence** out, di_bytes* error);
int32_t di_sequence_clone(const di_sequence* sequence, di_sequence** out, di_bytes* error);
void di_sequence_free(di_sequence* sequence);
/* Bit i % 32 of words[i / 32]: token i may come next. Of a text that is complete: the end tokens too. */
int32_t di_sequence_mask(di_sequence* sequence, uint32_t* words, size_t word_count, di_bytes* error);
int32_t di_sequence_accept(di_sequence* sequence, uint32_t token, di_bytes* error);
/* accepting: the text is complete; finished: and nothing can follow. */
int32_t di_sequence_state(di_sequence* sequence, int32_t* accepting, int32_t* finished, di_bytes* error);

void di_bytes_free(di_bytes bytes);
void di_ids_free(di_ids ids);

#ifdef __cplusplus
}
#endif

#endif /* DEEPINFER_BRIDGE_H_ */
